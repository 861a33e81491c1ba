"""The command line, and the only package with flags.

All ways to start a program call `main(['train', '--train_logdir=...', ...])` (`run`). A program is one record in
`programs`: its flags in groups (`*_flags`), and a function that creates its options from their values. Flags are made
of the declarations of the option fields that they set (`links`); `to_options` converts the values that are not plain
copies. Each call has `Values` of its own, so that several programs can run in one process, and flags of the same
name can have different defaults. A program's module, and TensorFlow with it, is imported only when the program runs, so
that help and usage errors are fast.

`words` reads a command line as absl does, which the original uses, and suggests fixes for common mistakes; `parse` adds
what a preset, a recipe, the description of the records and the run.json of a checkpoint set.

To add a program: a `Program` in `programs`, its summary in `overview`, a function in `to_options`, and an
options class, whose fields are its flags.
"""

from deeplab.cli import programs  # which fills the table of programs
from deeplab.cli.help import HELP_WIDTH, program_help
from deeplab.cli.parse import options_of, parse_flags
from deeplab.cli.program import PROGRAMS, find_program
from deeplab.cli.run import ERROR_STATUS, USAGE_STATUS, main, run_program
from deeplab.cli.values import Values
