"""Checkpoints: finding, reading, comparing, restoring and writing them.

TensorFlow restores by name without looking at shapes, so that a network for 3 classes silently takes the weights of
one for 21. Every restore of this project goes through `restore_all` or `restore_matching`, which compare first.
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

from deeplab.core.checkpoint_reader import UNREADABLE, Reader, files_of, is_access_failure
from deeplab.core.reasons import reason_of
from deeplab.core.scopes import shortened
from deeplab.errors import CheckpointError, NetworkMismatchError
from deeplab.utils import files

__all__ = [
    'BASENAME',
    'GLOBAL_STEP',
    'CheckpointWriter',
    'Entry',
    'RestoreReport',
    'check_path',
    'damage',
    'entries',
    'files_of',
    'find',
    'first_whole',
    'is_access_failure',
    'is_own_name',
    'listed_in',
    'newest',
    'newest_whole',
    'on_disk',
    'open_reader',
    'remove_leftovers',
    'restore_all',
    'restore_matching',
    'shortened',
    'step_in_name',
    'step_of',
    'unreadable',
    'write_state',
]

BASENAME = 'model.ckpt'
GLOBAL_STEP = 'global_step'
# What else is written by way of temporary files into a folder of checkpoints.
_WRITTEN_BESIDE = r'checkpoint|model\.ckpt.*|.+\.(json|jsonl|pbtxt)'
_SUFFIX = re.compile(r'\.(index|meta|data-\d{5}-of-\d{5})$')
_OWN_NAME = re.compile(rf'{re.escape(BASENAME)}-(\d+)')  # of a checkpoint that training wrote
_STATE_FILE = 'checkpoint'


# Makes a value of a checkpoint fit a variable of another shape.
Conversion = Callable[[np.ndarray], np.ndarray]


class Entry(NamedTuple):
    """What a checkpoint says about one of its tensors."""

    shape: tuple[int, ...]
    dtype: tf.DType


class RestoreReport(NamedTuple):
    """What `restore_matching` did, by variable names in order.

    Attributes:
      restored: taken from the checkpoint.
      missing: not in the checkpoint; left as they were.
      mismatched: in the checkpoint with another shape or type; left as they were. One line of explanation each.
      converted: those of `restored` whose values were converted.
    """

    restored: tuple[str, ...]
    missing: tuple[str, ...]
    mismatched: tuple[str, ...]
    converted: tuple[str, ...] = ()


def _exists(prefix: str) -> bool:
    """Whether there is a checkpoint of this path: an index, or the single file of the first format."""
    return tf.io.gfile.exists(f'{prefix}.index') or (tf.io.gfile.exists(prefix) and not tf.io.gfile.isdir(prefix))


def check_path(path: str) -> str:
    """The checkpoint at `path`, as TensorFlow wants it: without the ending of one of its files.

    A folder stands for the newest checkpoint in it, so that a published archive works as it is unpacked.

    Raises:
      CheckpointError: if it is a folder without a checkpoint, one of a checkpoint's files, or nothing at all.
    """
    prefix = _SUFFIX.sub('', path)
    if prefix != path and _exists(prefix):
        raise CheckpointError(
            f"'{path}' is one of a checkpoint's files. Give the checkpoint's path without the ending: {prefix}"
        )
    if os.path.isdir(path):
        inside = newest(path)
        if inside is None:
            raise CheckpointError(
                f"There is no checkpoint in the folder '{path}'. A checkpoint is files such as model.ckpt.index and "
                'model.ckpt.data-00000-of-00001'
            )
        return inside
    if not _exists(path):
        raise CheckpointError(
            f"There is no checkpoint '{path}'. A checkpoint is the path that its files PATH.index and "
            'PATH.data-00000-of-00001 have in common'
        )
    return path


def find(path: str) -> str:
    """As `check_path`, but takes one of a checkpoint's files for the whole."""
    return check_path(_SUFFIX.sub('', path))


def open_reader(path: str) -> Reader:
    """A reader of the checkpoint at `path`.

    Raises:
      CheckpointError: if there is none (see `check_path`), or its index cannot be read.
    """
    path = check_path(path)
    reader = Reader(path)
    try:
        return reader.open()
    except CheckpointError:
        raise
    except UNREADABLE as error:
        raise CheckpointError(_unreadable_message(path, reader.reason(error))) from error


def _unreadable_message(path: str, reason: str) -> str:
    """Says that the checkpoint at `path` cannot be read, and whether that is damage."""
    damaged = '' if is_access_failure(reason) else ': it is damaged'
    return f"The checkpoint '{path}' cannot be read{damaged} ({reason})"


def entries(path: str) -> dict[str, Entry]:
    """Names, shapes and types of all tensors of the checkpoint at `path`.

    Raises:
      CheckpointError: if it cannot be read.
    """
    reader = open_reader(path)
    types = reader.get_variable_to_dtype_map()
    shapes = reader.get_variable_to_shape_map()
    return {name: Entry(tuple(shapes[name]), types[name]) for name in sorted(shapes)}


def step_of(path: str) -> int:
    """The global step that the checkpoint at `path` holds, or its name ends in; 0 if neither.

    Raises:
      CheckpointError: if it cannot be read.
    """
    path = check_path(path)
    reader = open_reader(path)
    if reader.has_tensor(GLOBAL_STEP):
        try:
            return int(reader.get_tensor(GLOBAL_STEP))
        except UNREADABLE as error:
            raise CheckpointError(_unreadable_message(path, reader.reason(error))) from error
    return max(step_in_name(path), 0)


def unreadable(path: str) -> dict[str, str]:
    """Which tensors of the checkpoint at `path` cannot be read, by name, and why.

    Reads every tensor, so that their checksums are compared.

    Raises:
      CheckpointError: its index cannot be read.
    """
    reader = open_reader(path)
    found = {}
    for name in sorted(reader.get_variable_to_shape_map()):
        try:
            reader.get_tensor(name)
        except UNREADABLE as error:
            found[name] = reader.reason(error)
    return found


def damage(path: str) -> str | None:
    """Why the checkpoint at `path` cannot be used, in a few words; None if all of it can be read.

    Reads every tensor, so that their checksums are compared.
    """
    problem = _problem(path)
    return None if problem is None else problem.text


class _Problem(NamedTuple):
    """Why a checkpoint cannot be used; `is_damage` unless its files merely cannot be accessed."""

    text: str
    is_damage: bool


def _problem(path: str) -> _Problem | None:
    """See `damage`."""
    try:
        found = unreadable(path)
    except CheckpointError as error:
        cause = error.__cause__
        return _Problem(str(error), cause is not None and not is_access_failure(reason_of(cause)))
    if not found:
        return None
    reason = next(iter(found.values()))
    is_damage = not is_access_failure(reason)
    what = 'is damaged' if is_damage else 'cannot be read'
    return _Problem(f"The checkpoint '{path}' {what} ({shortened(list(found))}: {reason})", is_damage)


def newest(directory: str) -> str | None:
    """Path of the newest checkpoint in `directory`, as its `checkpoint` file says (else by step); None without any."""
    found = _newest_first(directory)
    return found[0] if found else None


def newest_whole(directory: str) -> str | None:
    """Path of the newest checkpoint in `directory` that can be read to the end; None without any.

    Says which newer ones are damaged, as a machine that stopped in the middle of a write may leave them.

    Raises:
      CheckpointError: if there are checkpoints, and none can be read.
    """
    return first_whole(directory, _newest_first(directory))


def is_own_name(path: str) -> bool:
    """Whether a checkpoint is named as training names those that it writes."""
    return _OWN_NAME.fullmatch(os.path.basename(path)) is not None


def first_whole(directory: str, paths: Sequence[str]) -> str | None:
    """The first of some checkpoints in `directory` that can be read to the end; see `newest_whole`."""
    problems = []
    for path in paths:
        problem = _problem(path)
        if problem is None:
            return path
        problems.append(problem)
        logging.warning('%s. Going back to the one before.', problem.text)
    if not problems:
        return None
    if all(problem.is_damage for problem in problems):
        raise CheckpointError(
            f"All {len(problems)} checkpoints in '{directory}' are damaged. Move them away to start from the beginning"
        )
    raise CheckpointError(f"None of the {len(problems)} checkpoints in '{directory}' can be used. {problems[0].text}")


def _newest_first(directory: str) -> list[str]:
    """Checkpoints in `directory`: those that the state file lists, newest first, then the others by falling step."""
    listed = listed_in(directory)
    others = sorted(on_disk(directory), key=step_in_name, reverse=True)
    return list(dict.fromkeys([*listed, *others]))


def listed_in(directory: str) -> list[str]:
    """Checkpoints that are there and that the state file of `directory` lists, newest first."""
    try:
        state = tf.train.get_checkpoint_state(directory)
    except UNREADABLE:
        state = None
    if state is None:
        return []
    named = [state.model_checkpoint_path, *reversed(state.all_model_checkpoint_paths)]
    # A folder that was moved still names its old place.
    paths = [os.path.join(directory, os.path.basename(path)) for path in named]
    return [path for path in dict.fromkeys(paths) if _exists(path)]


def on_disk(directory: str) -> list[str]:
    """Checkpoints whose index is in `directory`."""
    indices = glob.glob(os.path.join(glob.escape(directory), '*.index'))
    return [path.removesuffix('.index') for path in indices]


def step_in_name(path: str) -> int:
    """The step with which a checkpoint's name ends, -1 without one."""
    match = re.search(r'-(\d+)$', path)
    return int(match.group(1)) if match else -1


def _disagreement(name: str, variable: tf.Variable, entry: Entry) -> str | None:
    """How `variable` differs from what the checkpoint holds as `name`; None if it does not."""
    shape = tuple(variable.shape.as_list())
    if shape != entry.shape:
        return f'{name}: {list(shape)} here, {list(entry.shape)} in the checkpoint'
    if variable.dtype.base_dtype != entry.dtype:
        return f'{name}: {variable.dtype.base_dtype.name} here, {entry.dtype.name} in the checkpoint'
    return None


def restore_all(
    session: tf.compat.v1.Session,
    path: str,
    variables: Iterable[tf.Variable],
    names: Mapping[str, str] | None = None,
) -> None:
    """Gives each of `variables` its value in the checkpoint at `path`. Adds nothing to the graph.

    Args:
      session: to restore into.
      path: of the checkpoint.
      variables: what to restore.
      names: under which name the checkpoint holds a variable, by the variable's name; None for their own.

    Raises:
      CheckpointError: if the checkpoint cannot be read, lacks one of them, or holds one with another shape or type.
        No variable is changed then.
    """
    wanted = {_name_held(variable, names): variable for variable in variables}
    held = entries(path)
    missing = [name for name in wanted if name not in held]
    found = [_disagreement(name, variable, held[name]) for name, variable in wanted.items() if name in held]
    different = [line for line in found if line is not None]
    if missing or different:
        problems = []
        if different:
            problems.append(f'{len(different)} variables differ ({shortened(different, 4)})')
        if missing:
            problems.append(f'it lacks {len(missing)} of {len(wanted)} variables ({shortened(missing)})')
        raise NetworkMismatchError(
            f"The checkpoint '{path}' does not fit this network: {'; '.join(problems)}. Give the flags that it was "
            'trained with (model variant, data set, heads, decoder, optimizer, trainable scopes), or another checkpoint'
        )
    _load(session, path, list(wanted.values()), names)


def _name_held(variable: tf.Variable, names: Mapping[str, str] | None) -> str:
    """The name under which a checkpoint holds `variable`."""
    own: str = variable.op.name
    return own if names is None else names.get(own, own)


def restore_matching(
    session: tf.compat.v1.Session,
    path: str,
    variables: Iterable[tf.Variable],
    names: Mapping[str, str] | None = None,
    check: Callable[[RestoreReport], None] | None = None,
    conversion: Callable[[tf.Variable, Entry], Conversion | None] | None = None,
) -> RestoreReport:
    """Gives those of `variables` which the checkpoint at `path` holds, with equal shape and type, its values.

    Adds nothing to the graph; says nothing: the report is for the caller to tell.

    Args:
      session: where they get their values.
      path: of the checkpoint.
      variables: the variables.
      names: under which name the checkpoint holds a variable, by the variable's name; None for their own.
      check: gets the report before any variable changes, and may raise.
      conversion: gives, for a variable that the checkpoint holds in another shape, what makes its value fit, or None
        where nothing does; None where no value is converted.

    Raises:
      CheckpointError: if the checkpoint cannot be read.
    """
    held = entries(path)
    fitting, missing, mismatched = [], [], []
    conversions: dict[str, Conversion] = {}
    for variable in variables:
        name = variable.op.name
        entry = held.get(_name_held(variable, names))
        if entry is None:
            missing.append(name)
            continue
        problem = _disagreement(name, variable, entry)
        convert = conversion(variable, entry) if problem and conversion else None
        if convert is not None:
            conversions[name] = convert
        if problem is None or convert is not None:
            fitting.append(variable)
        else:
            mismatched.append(problem)
    restored = tuple(variable.op.name for variable in fitting)
    report = RestoreReport(restored, tuple(missing), tuple(mismatched), tuple(conversions))
    if check is not None:
        check(report)
    _load(session, path, fitting, names, conversions)
    return report


def _load(
    session: tf.compat.v1.Session,
    path: str,
    variables: Sequence[tf.Variable],
    names: Mapping[str, str] | None = None,
    conversions: Mapping[str, Conversion] | None = None,
) -> None:
    """Runs the variables' own initialisers, fed with the checkpoint's values: one run, no new operations."""
    reader = open_reader(path)
    values: dict[tf.Tensor, np.ndarray] = {}
    try:
        for variable in variables:
            value = reader.get_tensor(_name_held(variable, names))
            convert = (conversions or {}).get(variable.op.name)
            values[variable.initializer.inputs[1]] = value if convert is None else convert(value)
    except UNREADABLE as error:
        raise CheckpointError(_unreadable_message(path, reader.reason(error))) from error
    session.run([variable.initializer for variable in variables], values)


class CheckpointWriter:
    """Writes `DIRECTORY/model.ckpt-STEP` and keeps the newest few.

    A checkpoint appears under its name when it is whole, and `checkpoint` names it after that: a process that dies
    at any moment leaves only whole ones behind.
    """

    def __init__(self, directory: str, keep: int = 5, variables: Sequence[tf.Variable] | None = None):
        """Adds the saving operations to the current graph; `variables` None for all global ones."""
        self._directory = directory
        self._keep = keep
        # TensorFlow's own removal of old checkpoints takes their paths for patterns, so it is not asked for.
        self._saver = tf.compat.v1.train.Saver(variables, max_to_keep=None)
        self._written: list[str] = []  # names of those to keep, the oldest first
        self.last_path: str | None = None
        self.last_step: int | None = None

    def adopt(self, path: str, step: int) -> None:
        """Takes over the checkpoints that an earlier run has written and listed in the state file.

        `path` was just restored; older ones count among the kept, and no other file will ever be removed.
        """
        names = [os.path.basename(listed) for listed in reversed(listed_in(self._directory))]
        self._written = [name for name in names if is_own_name(name) and step_in_name(name) <= step]
        self.last_path, self.last_step = path, step

    def save(self, session: tf.compat.v1.Session, step: int) -> str:
        """Writes the checkpoint of `step`, unless it is there already, and returns its path.

        Raises:
          CheckpointError: if it cannot be written; what was there stays.
        """
        if self.last_step == step and self.last_path is not None:
            return self.last_path
        prefix = os.path.join(self._directory, BASENAME)
        try:
            path: str = self._saver.save(session, prefix, global_step=step, write_meta_graph=False, write_state=False)
            name = os.path.basename(path)
            names = [*(other for other in self._written if other != name), name]
            self._written = names[-self._keep :]
            write_state(self._directory, self._written)
        except (tf.errors.OpError, ValueError, OSError) as error:
            raise CheckpointError(
                f"The checkpoint of step {step} cannot be written to '{self._directory}' ({reason_of(error)}). "
                f'Is the disk full, or the folder read-only? The last good checkpoint is {self.last_path}'
            ) from error
        self.last_path, self.last_step = path, step
        for old in names[: -self._keep]:
            _remove(os.path.join(self._directory, old))
        return path


def write_state(directory: str, names: Sequence[str]) -> None:
    """Writes the state file of `directory`, which lists its checkpoints `names`, the newest last."""
    state = tf.compat.v1.train.generate_checkpoint_state_proto('/', names[-1], list(names))
    with files.written_whole(os.path.join(directory, _STATE_FILE)) as stream:
        stream.write(str(state))


def _remove(prefix: str) -> None:
    """Removes the files of the checkpoint at `prefix`, the index first: what is left is no checkpoint."""
    try:
        for path in reversed(files_of(prefix)):
            os.remove(path)
    except OSError as error:
        logging.warning("The old checkpoint '%s' cannot be removed (%s).", prefix, reason_of(error))


class NoCheckpoints:
    """In the place of a `CheckpointWriter` where another process writes the checkpoints."""

    last_path: str | None = None

    def save(self, session: tf.compat.v1.Session, step: int) -> None:
        """Does nothing."""


def remove_leftovers(directory: str) -> None:
    """Removes what a killed process may have left of a checkpoint, or of a file beside it, that it had not finished.

    Data files without an index are removed only where a state file shows that training has written here.
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
    for path in (*leftovers, *files.remove_leftovers(directory, _WRITTEN_BESIDE)):
        logging.info('Removed %s, left by a run that was stopped while writing it.', path)
