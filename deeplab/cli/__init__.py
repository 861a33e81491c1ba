"""The command line: the only room with flags.

`main(['train', '--train_logdir=...', ...])` is what all spellings of a call end in (`run`). A program is one record in
`programs`: its flags in groups (`*_flags`), and a function that makes its options of their values (`to_options`). Each
call builds a `FlagValues` of its own, so several programs can run in one process, and flags of one name may have other
defaults elsewhere. A program's module, and TensorFlow with it, is imported only when the program runs, so that help
and mistakes are quick.

The words of a call are read twice: first by `words`, which knows the mistakes that people make and says how to fix
them, then by absl, which knows the values (`parse`).

To add a program: a `Program` in `programs`, a function in `to_options`, and flags that no group has yet.
"""

from deeplab.cli import programs  # noqa: F401 (fills the table of programs)
from deeplab.cli.help import HELP_WIDTH, HELP_WORDS, overview, program_help
from deeplab.cli.log_flags import start_logging
from deeplab.cli.parse import options_of, parse_flags
from deeplab.cli.program import PLANNED, PROGRAMS, Program, find_program, owners_of
from deeplab.cli.run import ERROR_STATUS, INTERRUPTED_STATUS, USAGE_STATUS, main, run_program
from deeplab.cli.to_options import PREVIEW_FILE, eval_options, export_options, train_options, vis_options
from deeplab.cli.values import Values

__all__ = [
    'ERROR_STATUS',
    'HELP_WIDTH',
    'HELP_WORDS',
    'INTERRUPTED_STATUS',
    'PLANNED',
    'PREVIEW_FILE',
    'PROGRAMS',
    'Program',
    'USAGE_STATUS',
    'Values',
    'eval_options',
    'export_options',
    'find_program',
    'main',
    'options_of',
    'overview',
    'owners_of',
    'parse_flags',
    'program_help',
    'run_program',
    'start_logging',
    'train_options',
    'vis_options',
]
