"""Checkpoints: finding, reading, comparing, restoring and writing them.

TensorFlow restores variables by name without comparing shapes, so that a network for 3 classes would silently take the
weights of one for 21. Every restore goes through `restore_all` or `restore_matching`, which compare shapes first.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from deeplab.core import checkpoint_fit
from deeplab.core.checkpoint_fit import RGB_CHANNELS, can_inflate, difference, inflate
from deeplab.core.checkpoint_fit import Entry as Entry
from deeplab.core.checkpoint_reader import Reader, UnreadableError
from deeplab.core.checkpoint_reader import files_of as files_of
from deeplab.core.checkpoint_reader import is_access_failure as is_access_failure
from deeplab.errors import CheckpointError, reason_of
from deeplab.files import writing
from deeplab.files.run_manifests import is_own_name as is_own_name
from deeplab.names import listed

BASENAME = 'model.ckpt'
GLOBAL_STEP = 'global_step'
CALIBRATION = '.calibration.json'  # ending of the file beside a checkpoint that `inference.task_calibration` writes
# Other files in a folder of checkpoints that are written to a temporary file first.
_WRITTEN_BESIDE = r'checkpoint|model\.ckpt.*|.+\.(json|jsonl|pbtxt)'
_SUFFIX = re.compile(r'\.(index|meta|data-\d{5}-of-\d{5})$')
_STATE_FILE = 'checkpoint'


class RestoreReport(NamedTuple):
    """Result of `restore_matching`, as names of variables in order.

    Attributes:
      restored: variables that were restored.
      missing: variables that the checkpoint lacks; unchanged.
      mismatched: one line for each variable that has another shape or type in the checkpoint; unchanged.
      converted: restored variables whose values were converted to other channels (`checkpoint_fit.inflate`).
    """

    restored: tuple[str, ...]
    missing: tuple[str, ...]
    mismatched: tuple[str, ...]
    converted: tuple[str, ...] = ()


def _exists(prefix: str) -> bool:
    """Returns whether there is a checkpoint of this path: an index, or the single file of the V1 format."""
    return tf.io.gfile.exists(f'{prefix}.index') or (tf.io.gfile.exists(prefix) and not tf.io.gfile.isdir(prefix))


def check_path(path: str) -> str:
    """Returns the path of the checkpoint at `path`, as TensorFlow expects it: without the extension of a file.

    For a folder it is the newest checkpoint in it, or in the only folder in it, so that an archive can be given as it
    was unpacked.

    Raises:
      CheckpointError: if it is a folder without a checkpoint, one of a checkpoint's files, or does not exist.
    """
    prefix = _SUFFIX.sub('', path)
    if prefix != path and _exists(prefix):
        raise CheckpointError(
            f"'{path}' is one of a checkpoint's files. Pass the path of the checkpoint without the extension: {prefix}"
        )
    if os.path.isdir(path):
        inside = newest(as_unpacked(path))
        if inside is None:
            raise CheckpointError(
                f"There is no checkpoint in the folder '{path}'. A checkpoint consists of files such as "
                'model.ckpt.index and model.ckpt.data-00000-of-00001'
            )
        return inside
    if not _exists(path):
        raise CheckpointError(
            f"There is no checkpoint '{path}'. Pass the common PATH of its files PATH.index and "
            'PATH.data-00000-of-00001'
        )
    return path


def as_unpacked(folder: str) -> str:
    """Returns the only folder in a folder, if the checkpoints are there, as in an archive that was unpacked.

    Any other folder is returned unchanged, also one in which a training has not saved yet.
    """
    try:
        with os.scandir(folder) as entries:
            inner = [entry.path for entry in entries if entry.is_dir() and not entry.name.startswith('.')]
    except OSError:
        return folder
    is_outer = len(inner) == 1 and newest(folder) is None and newest(inner[0]) is not None
    return inner[0] if is_outer else folder


def find(path: str) -> str:
    """As `check_path`, but also accepts one of a checkpoint's files."""
    return check_path(_SUFFIX.sub('', path))


def open_reader(path: str) -> Reader:
    """Opens a reader of the checkpoint at `path`.

    Raises:
      CheckpointError: if there is none (see `check_path`), or its index cannot be read.
    """
    return Reader(check_path(path))


def entries(path: str) -> dict[str, Entry]:
    """Returns names, shapes and types of all tensors of the checkpoint at `path`.

    Raises:
      CheckpointError: if it cannot be read.
    """
    reader = open_reader(path)
    types = reader.get_variable_to_dtype_map()
    shapes = reader.get_variable_to_shape_map()
    return {name: Entry(tuple(shapes[name]), types[name]) for name in sorted(shapes)}


def step_of(path: str) -> int:
    """Returns the global step in the checkpoint at `path`, or else in its name; 0 if neither has one.

    Raises:
      CheckpointError: if it cannot be read.
    """
    reader = open_reader(path)
    if reader.has_tensor(GLOBAL_STEP):
        return int(reader.get_tensor(GLOBAL_STEP))
    return max(step_in_name(check_path(path)), 0)


def unreadable(path: str) -> dict[str, str]:
    """Returns the reasons why tensors of the checkpoint at `path` cannot be read, by name.

    Reads every tensor and verifies its checksum.

    Raises:
      CheckpointError: its index cannot be read.
    """
    reader = open_reader(path)
    reasons = {}
    for name in sorted(reader.get_variable_to_shape_map()):
        try:
            reader.get_tensor(name)
        except UnreadableError as error:
            reasons[name] = error.reason
    return reasons


def damage(path: str) -> CheckpointError | None:
    """Returns why the checkpoint at `path` cannot be used, as an `UnreadableError` if its files exist; None if it can.

    Reads every tensor and verifies its checksum.
    """
    try:
        reasons = unreadable(path)
    except CheckpointError as error:
        return error
    if not reasons:
        return None
    reason = next(iter(reasons.values()))
    what = 'cannot be read' if is_access_failure(reason) else 'is damaged'
    return UnreadableError(f"The checkpoint '{path}' {what} ({listed(list(reasons))}: {reason})", reason)


def newest(directory: str) -> str | None:
    """Returns the newest checkpoint in `directory` by its `checkpoint` file, or else by step; None if there is none."""
    return next(iter(newest_first(directory)), None)


def newest_whole(directory: str, paths: Sequence[str] | None = None) -> str | None:
    """Returns the newest checkpoint in `directory` that can be read completely; None if there is none.

    Logs which newer ones are damaged, for example by a machine that stopped while writing.

    Args:
      directory: the folder.
      paths: the checkpoints to choose from, newest first; None for all.

    Raises:
      CheckpointError: if there are checkpoints, and none can be read.
    """
    problems = []
    for path in newest_first(directory) if paths is None else paths:
        problem = damage(path)
        if problem is None:
            return path
        problems.append(problem)
        logging.warning('%s. Trying the previous checkpoint.', problem)
    if not problems:
        return None
    if all(isinstance(problem, UnreadableError) and problem.is_damage for problem in problems):
        raise CheckpointError(
            f"All {len(problems)} checkpoints in '{directory}' are damaged. Move them to another folder to start anew"
        )
    raise CheckpointError(f"None of the {len(problems)} checkpoints in '{directory}' can be used. {problems[0]}")


def find_checkpoint(path: str) -> str:
    """Returns the checkpoint at `path`, or the newest complete one in a folder; see `as_unpacked`.

    Raises:
      CheckpointError: there is none, or the path is one of a checkpoint's files.
    """
    if not os.path.isdir(path):
        return check_path(path)
    inside = newest_whole(as_unpacked(path))
    if inside is None:
        raise CheckpointError(
            f"There is no checkpoint in the folder '{path}'. Pass the log folder of a training run that has saved "
            'one, or the path of a checkpoint, such as DIR/model.ckpt-30000'
        )
    return inside


def newest_first(directory: str) -> list[str]:
    """Returns checkpoints in `directory`: those in the state file, newest first, then others by descending step."""
    others = sorted(on_disk(directory), key=step_in_name, reverse=True)
    return list(dict.fromkeys([*listed_in(directory), *others]))


def listed_in(directory: str) -> list[str]:
    """Returns the existing checkpoints that the state file of `directory` lists, newest first."""
    try:
        state = tf.train.get_checkpoint_state(directory)
    except (tf.errors.OpError, ValueError, OSError):  # damaged
        state = None
    if state is None:
        return []
    named = [state.model_checkpoint_path, *reversed(state.all_model_checkpoint_paths)]
    # The state file of a folder that was moved contains the old path.
    paths = [os.path.join(directory, os.path.basename(path)) for path in named]
    return [path for path in dict.fromkeys(paths) if _exists(path)]


def on_disk(directory: str) -> list[str]:
    """Returns the checkpoints whose index is in `directory`."""
    indices = glob.glob(os.path.join(glob.escape(directory), '*.index'))
    return [path.removesuffix('.index') for path in indices]


def step_in_name(path: str) -> int:
    """Returns the step at the end of a checkpoint's name; -1 if there is none."""
    match = re.search(r'-(\d+)$', path)
    return int(match.group(1)) if match else -1


def restore_all(session: tf.compat.v1.Session, path: str, variables: Iterable[tf.Variable]) -> None:
    """Restores `variables` from the checkpoint at `path`. Adds nothing to the graph.

    Raises:
      CheckpointError: if the checkpoint cannot be read, lacks a variable, or has one with another shape or type. In
        this case no variable is changed.
    """
    variables = list(variables)
    assign(session, path, variables, read_all(path, variables))


def read_all(
    path: str, variables: Iterable[tf.Variable | tf.Tensor], names: Mapping[str, str] | None = None
) -> dict[str, np.ndarray]:
    """Returns the values of variables, or of placeholders with their names, in the checkpoint at `path`.

    The values are by the variables' own names; `names` as for `require_all`.

    Raises:
      CheckpointError: as `restore_all`.
    """
    variables = list(variables)
    require_all(path, variables, names)
    return _values(path, variables, names)


def require_all(
    path: str,
    variables: Sequence[tf.Variable | tf.Tensor],
    names: Mapping[str, str] | None = None,
    num_classes: int | None = None,
) -> None:
    """Raises `NetworkMismatchError` unless the checkpoint at `path` has all variables (placeholders with their names).

    `names` has the names in the checkpoint by the names of the variables; None if they are equal. For `num_classes` see
    `checkpoint_fit.require`.
    """
    wanted = {_name_held(variable, names): variable for variable in variables}
    checkpoint_fit.require(path, entries(path), wanted, num_classes)


def _name_held(variable: tf.Variable | tf.Tensor, names: Mapping[str, str] | None) -> str:
    own: str = variable.op.name
    return own if names is None else names.get(own, own)


def restore_matching(
    session: tf.compat.v1.Session,
    path: str,
    variables: Iterable[tf.Variable],
    names: Mapping[str, str] | None = None,
    check: Callable[[RestoreReport], None] | None = None,
    input_channels: int = RGB_CHANNELS,
) -> RestoreReport:
    """Restores the variables that the checkpoint at `path` contains with equal shape and type.

    Adds nothing to the graph and logs nothing; the caller reports the result.

    Args:
      session: session to restore into.
      path: path of the checkpoint.
      variables: the variables.
      names: name in the checkpoint by the name of the variable; None if they are equal.
      check: called with the report before any variable changes; may raise.
      input_channels: channels of the network's images; a first convolution for three is converted to others.

    Raises:
      CheckpointError: if the checkpoint cannot be read.
    """
    held = entries(path)
    fitting, missing, mismatched, converted = [], [], [], []
    for variable in variables:
        name = variable.op.name
        entry = held.get(_name_held(variable, names))
        if entry is None:
            missing.append(name)
            continue
        problem = difference(name, variable, entry)
        if can_inflate(variable.shape.as_list(), entry.shape, input_channels):
            converted.append(name)
        elif problem is not None:
            mismatched.append(problem)
            continue
        fitting.append(variable)
    restored = tuple(variable.op.name for variable in fitting)
    report = RestoreReport(restored, tuple(missing), tuple(mismatched), tuple(converted))
    if check is not None:
        check(report)
    values = _values(path, fitting, names)
    assign(session, path, fitting, values | {name: inflate(values[name], input_channels) for name in converted})
    return report


def assign(
    session: tf.compat.v1.Session, path: str, variables: Sequence[tf.Variable], values: Mapping[str, np.ndarray]
) -> None:
    """Runs the variables' own initializers, fed with values of the checkpoint, in one run without new operations."""
    bad = [name for name, value in values.items() if value.dtype.kind == 'f' and not np.isfinite(value).all()]
    if bad:
        text = "The checkpoint '%s' has values that are NaN or infinite (%s). Use another checkpoint."
        logging.warning(text, path, listed(bad, 3))
    fed = {variable.initializer.inputs[1]: values[variable.op.name] for variable in variables}
    session.run([variable.initializer for variable in variables], fed)


def _values(
    path: str, variables: Sequence[tf.Variable | tf.Tensor], names: Mapping[str, str] | None
) -> dict[str, np.ndarray]:
    """Returns the checkpoint's values of variables by their own names."""
    reader = open_reader(path)
    return {variable.op.name: reader.get_tensor(_name_held(variable, names)) for variable in variables}


class CheckpointWriter:
    """Writes `DIRECTORY/model.ckpt-STEP` and keeps the newest few.

    A checkpoint gets its name when it is complete, and is then listed in `checkpoint`: a process that is killed at any
    moment leaves only complete checkpoints behind.
    """

    def __init__(self, directory: str, keep: int = 5, variables: Sequence[tf.Variable] | None = None):
        """Adds the saving operations to the current graph; `variables` None for all global ones."""
        self._directory = directory
        self._keep = keep
        # TensorFlow's Saver also adds two operations for each variable to restore it, which `_assign` does without, and
        # its removal of old checkpoints treats their paths as patterns.
        saved = tf.compat.v1.global_variables() if variables is None else variables
        self._prefix = tf.compat.v1.placeholder(tf.string, [], 'save/prefix')
        self._save = tf.raw_ops.SaveV2(
            prefix=self._prefix,
            tensor_names=[variable.op.name for variable in saved],
            shape_and_slices=[''] * len(saved),
            tensors=[variable.graph.as_graph_element(variable) for variable in saved],
            name='save/SaveV2',
        )
        self._written: list[str] = []  # names of the checkpoints to keep, the oldest first
        self.last_path: str | None = None
        self.last_step: int | None = None

    def adopt(self, path: str, step: int) -> None:
        """Adopts the checkpoints that an earlier run has written and listed in the state file.

        `path` was just restored. Older checkpoints count among the kept ones; no other file will be removed.
        """
        names = [os.path.basename(listed) for listed in reversed(listed_in(self._directory))]
        self._written = [name for name in names if is_own_name(name) and step_in_name(name) <= step]
        self.last_path, self.last_step = path, step

    def save(self, session: tf.compat.v1.Session, step: int) -> str:
        """Writes the checkpoint of `step`, unless it exists, and returns its path.

        Raises:
          CheckpointError: if it cannot be written; existing files are unchanged.
        """
        if self.last_step == step and self.last_path is not None:
            return self.last_path
        name = f'{BASENAME}-{step}'
        path = os.path.join(self._directory, name)
        try:
            writing.remove(path + CALIBRATION)  # of a checkpoint that had this name
            session.run(self._save, {self._prefix: path})
            names = [*(other for other in self._written if other != name), name]
            self._written = names[-self._keep :]
            write_state(self._directory, self._written)
        except (tf.errors.OpError, ValueError, OSError) as error:
            last = f' The last checkpoint is {self.last_path}' if self.last_path else ''
            raise CheckpointError(
                f"The checkpoint of step {step} cannot be written to '{self._directory}' ({reason_of(error)}). "
                f'Check that the disk is not full and the folder is writable.{last}'
            ) from error
        self.last_path, self.last_step = path, step
        for old in names[: -self._keep]:
            _remove(os.path.join(self._directory, old))
        return path

    def save_for_hooks(self, session: tf.compat.v1.Session, step: int) -> str:
        """Writes the checkpoint of `step` for hooks of the training loop; as `save`."""
        return self.save(session, step)


def write_state(directory: str, names: Sequence[str]) -> None:
    """Writes the state file of `directory`, which lists its checkpoints `names`, the newest last."""
    state = tf.compat.v1.train.generate_checkpoint_state_proto('/', names[-1], list(names))
    writing.write(os.path.join(directory, _STATE_FILE), str(state))


def _remove(prefix: str) -> None:
    """Removes the files of the checkpoint at `prefix`, the index first, without which the rest is not a checkpoint."""
    try:
        for path in reversed(files_of(prefix)):
            os.remove(path)
        writing.remove(prefix + CALIBRATION)
    except OSError as error:
        logging.warning("The old checkpoint '%s' cannot be removed (%s).", prefix, reason_of(error))


class NoCheckpoints:
    """Substitute for a `CheckpointWriter` if another process writes the checkpoints."""

    last_path: str | None = None

    def __init__(self, temporary: CheckpointWriter | None = None) -> None:
        """Creates the substitute; `temporary` writes the checkpoints that hooks need, None if none needs any."""
        self._temporary = temporary

    def save_for_hooks(self, session: tf.compat.v1.Session, step: int) -> str:
        """Writes a temporary checkpoint for hooks of the training loop, and returns its path."""
        assert self._temporary is not None, 'hooks that need checkpoints belong to a process that writes them'
        return self._temporary.save(session, step)

    def save(self, session: tf.compat.v1.Session, step: int) -> None:
        """Does nothing."""


def remove_leftovers(directory: str) -> None:
    """Removes unfinished checkpoints and other files that a killed process may have left behind.

    Data files without an index are removed only if there is a state file, which shows that training has written here.
    """
    escaped = glob.escape(directory)
    leftovers = glob.glob(os.path.join(escaped, f'{BASENAME}-*.tempstate*'))
    leftovers += glob.glob(os.path.join(escaped, 'checkpoint.tmp*'))
    has_run = os.path.exists(os.path.join(directory, _STATE_FILE))
    for data in glob.glob(os.path.join(escaped, f'{BASENAME}-*.data-*')) if has_run else ():
        if not os.path.exists(_SUFFIX.sub('', data) + '.index') and '.tempstate' not in data:
            leftovers.append(data)
    for path in leftovers:
        os.remove(path)
    for path in (*leftovers, *writing.remove_leftovers(directory, _WRITTEN_BESIDE)):
        logging.info('Removed %s, left behind by a run that was stopped while writing it.', path)
