"""The run manifest, TRAIN_LOGDIR/run.json: command, options, versions, records and machine of each training run.

The file holds one object, `{'format': 1, 'runs': [...]}`, with an entry for each run in the folder, the newest last.
Importing this module loads no TensorFlow, because the command line reads run manifests before it does.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import importlib.metadata
import json
import os
import pathlib
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from absl import logging

import deeplab
from deeplab.errors import OptionError
from deeplab.files import run_manifests, writing
from deeplab.files.run_manifests import FILE, Run
from deeplab.options import TrainOptions, parameters
from deeplab.system import processors
from deeplab.wording import option

if TYPE_CHECKING:
    from deeplab.evaluation.runner import CheckedSplit

FORMAT = 1
VALIDATION_RECORDS = 'validation_records'
UNLABELED_RECORDS = 'unlabeled_records'  # only of trainings with images without labels
INITIAL_CHECKPOINT = 'initial_checkpoint'
_PACKAGES = ('tensorflow', 'tf-slim', 'numpy', 'pillow')
_GIT_SECS = 10
_DIFFERENCES = {
    VALIDATION_RECORDS: (
        'The validation records differ from the run that is repeated: {then[images]} images of split {then[split]} '
        'then ({old}), {now[images]} of split {now[split]} now ({new}). Their mIoU cannot be compared.'
    ),
    UNLABELED_RECORDS: (
        'The images without labels differ from the run that is repeated: {then[images]} then ({old}), {now[images]} '
        'now ({new}).'
    ),
    INITIAL_CHECKPOINT: (
        'The initial checkpoint differs from the run that is repeated: {then[path]} then ({old}), {now[path]} now '
        '({new}).'
    ),
}


def load(path: str) -> Run:
    """Reads the newest run of a run manifest.

    Args:
      path: path of run.json, or of its folder.

    Raises:
      OptionError: the file does not exist, or is not a run manifest.
    """
    file = os.path.join(path, FILE) if os.path.isdir(path) else path
    try:
        runs = run_manifests.parse(pathlib.Path(file).read_text('utf-8-sig', 'replace'))
    except OSError as error:
        raise OptionError(
            f"{option('TrainOptions.repeats', path)}: '{file}' cannot be read ({error.strerror}). Pass the run.json "
            f'that training writes into its {option("TrainOptions.train_logdir")}'
        ) from None
    if not runs:
        raise OptionError(
            f"{option('TrainOptions.repeats', path)}: '{file}' is not a run manifest. Pass the run.json of a "
            f'{option("TrainOptions.train_logdir")}'
        )
    newest = runs[-1]
    if newest.get('first_step') and INITIAL_CHECKPOINT in newest:  # it resumed from a checkpoint of an earlier run
        newest[INITIAL_CHECKPOINT] = initial_checkpoint(runs)
    return newest


def initial_checkpoint(runs: Sequence[Run]) -> dict[str, Any] | None:
    """Returns path and digest of the initial checkpoint of the newest of the runs that began at step 0; or None."""
    started = [run for run in runs if not run.get('first_step')]
    return started[-1].get(INITIAL_CHECKPOINT) if started else None


def describe(
    options: TrainOptions,
    data: CheckedSplit,
    first_step: int,
    validated: CheckedSplit | None = None,
    initial_checkpoint: str | None = None,
) -> Run:
    """Describes a run, before its first step.

    `data` is the training split, `validated` the validation split, `initial_checkpoint` the path of the checkpoint that
    a new run restores.
    """
    validation_records = None
    if validated is not None:
        validation_records = {**records_of(validated), 'split': options.validation.split}
    return {
        'started': datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds'),
        'command': list(options.command),
        'command_line': shlex.join(['deeplab', 'train', *options.command]) if options.command else None,
        'recipe_flags': list(options.recipe_flags),
        'given': options.given,
        'plugins': list(options.plugins),
        'folder': os.getcwd(),
        'first_step': first_step,
        'seed': options.seed,
        'options': options_as_json(options),
        'versions': versions(),
        'git': git_revision(pathlib.Path(deeplab.__file__).parent),
        'records': {
            **records_of(data),
            'split': options.dataset.split,
            run_manifests.LARGEST_SIDE: int(data.check_result.sizes.max()),
        },
        VALIDATION_RECORDS: validation_records,
        run_manifests.CLASSES: data.descriptor.as_json(),  # for programs that run without the data set
        INITIAL_CHECKPOINT: None if initial_checkpoint is None else checkpoint(initial_checkpoint),
        'machine': {
            'cores': processors.available_cores(),
            'memory_gb': _memory_gb(),
            'processor': processors.name(),
            'gpus': _gpus(),
            'system': platform.platform(),
        },
    }


def records_of(data: CheckedSplit) -> dict[str, Any]:
    """Returns the facts about the records of a split, and the number of valid ones."""
    return {**data.reader.index.facts(), 'images': data.num_images}


def write(directory: str, run: Run) -> None:
    """Adds a run to the run manifest in `directory`; the file changes as a whole or not at all.

    A file of that name that is not a run manifest is kept as run.json.unreadable.
    """
    path = pathlib.Path(directory, FILE)
    earlier: list[Run] = []
    with contextlib.suppress(OSError):
        earlier = run_manifests.parse(path.read_text('utf-8-sig', 'replace'))
        if not earlier:
            os.replace(path, f'{path}.unreadable')
            logging.warning('%s is not a run manifest; it is kept as %s.unreadable.', path, FILE)
    writing.write(path, json.dumps({'format': FORMAT, 'runs': [*earlier, run]}, indent=1) + '\n')


def options_as_json(options: TrainOptions) -> dict[str, Any]:
    """Returns all fields of the options, defaults included, as JSON values, without those about the command line."""
    fields = parameters.as_dict(options)
    for name in ('command', 'recipe_flags', 'given', 'plugins', 'repeats'):
        fields.pop(name)
    text = json.dumps(fields, default=lambda value: dict(value) if isinstance(value, Mapping) else str(value))
    values: dict[str, Any] = json.loads(text)
    return values


def versions() -> dict[str, str]:
    """Returns the versions of this package, Python and the libraries that results depend on."""
    by_name = {'deeplab': deeplab.__version__, 'python': platform.python_version()}
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            by_name[package] = importlib.metadata.version(package)
    return by_name


def git_revision(folder: pathlib.Path) -> dict[str, Any] | None:
    """Returns the Git revision of a package's folder, and whether its files differ from it; None outside a checkout."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ['git', *words], cwd=folder, capture_output=True, text=True, timeout=_GIT_SECS, check=True
        )
        return done.stdout.strip()

    try:
        git('ls-files', '--error-unmatch', '__init__.py')  # fails for a package installed inside another checkout
        return {'revision': git('rev-parse', 'HEAD'), 'is_changed': bool(git('status', '--porcelain', '--', '.'))}
    except (OSError, subprocess.SubprocessError):
        return None


def checkpoint(path: str) -> dict[str, Any]:
    """Returns a checkpoint's path and digest.

    The digest is the SHA-256 of its index, which has a checksum of each tensor; of the whole checkpoint if it is a
    single file.
    """
    for name in (f'{path}.index', path):
        with contextlib.suppress(OSError), open(name, 'rb') as file:
            return {'path': path, 'digest': f'sha256:{hashlib.file_digest(file, "sha256").hexdigest()}'}
    return {'path': path, 'digest': None}


def _memory_gb() -> float | None:
    """Returns the memory of the machine in 10^9 bytes; None if unavailable."""
    try:
        return round(os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9, 1)
    except (ValueError, OSError, AttributeError):
        return None


def _gpus() -> list[str]:
    """Returns the names of the GPUs that TensorFlow sees."""
    if 'tensorflow' not in sys.modules:
        return []
    import tensorflow as tf

    details = tf.config.experimental.get_device_details
    return [details(gpu).get('device_name', gpu.name) for gpu in tf.config.list_physical_devices('GPU')]


def differences(old: Run, new: Run) -> list[str]:
    """Describes how the run `new` differs from the run `old` that it repeats, one sentence for each difference."""
    lines = []
    old_records, new_records = old.get('records', {}), new['records']
    if old_records.get('digest') != new_records['digest']:
        lines.append(
            f'The records differ from the run that is repeated: {old_records.get("images")} images then '
            f'({_short(old_records.get("digest"))}), {new_records["images"]} now ({_short(new_records["digest"])}).'
        )
    for key, sentence in _DIFFERENCES.items():
        then, now = old.get(key) or {}, new.get(key) or {}
        if then.get('digest') and now.get('digest') and then['digest'] != now['digest']:  # both are known
            lines.append(sentence.format(then=then, now=now, old=_short(then['digest']), new=_short(now['digest'])))
    old_versions, new_versions = old.get('versions', {}), new['versions']
    changed = [
        f'{name} {old_versions.get(name, "missing")} then, {new_versions.get(name, "missing")} now'
        for name in sorted({*old_versions, *new_versions})
        if old_versions.get(name) != new_versions.get(name)
    ]
    if changed:
        lines.append(f'Versions differ from the run that is repeated: {"; ".join(changed)}.')
    old_git, new_git = old.get('git') or {}, new['git'] or {}
    if old_git.get('revision') != new_git.get('revision'):
        lines.append(
            f'The code differs from the run that is repeated: revision {_short(old_git.get("revision"))} then, '
            f'{_short(new_git.get("revision"))} now.'
        )
    elif old_git.get('is_changed') or new_git.get('is_changed'):
        lines.append('The code had uncommitted changes, then or now; it may differ from the run that is repeated.')
    return lines


def _short(digest: str | None) -> str:
    return 'unknown' if digest is None else digest.removeprefix('sha256:')[:12]
