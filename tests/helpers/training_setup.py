"""A tiny split and a tiny network for the tests of train; can run as a process of its own.

`python -m tests.helpers.training_setup RECORDS LOGDIR STEPS` trains slowly enough to be killed, in a watched
process as the programs are.
"""

if __name__ == '__main__':
    import sys

    from deeplab.system import watched_process

    status = watched_process.fork('deeplab train', 'Do this.')
    if status is not None:
        sys.exit(status)

import atexit
import dataclasses
import hashlib
import json
import pathlib
import shutil
import sys
import tempfile

from deeplab import common
from deeplab.core import layers
from deeplab.datasets.segmentation_dataset import DataSource
from deeplab.options import (
    AsppOptions,
    AugmentOptions,
    CloneOptions,
    DatasetOptions,
    LearningRateOptions,
    ModelOptions,
    OptimizerOptions,
    TrainOptions,
)
from deeplab.registry import Backbone, register
from tests.helpers import dataset_files

IMAGES = 7
RATE = OptimizerOptions(learning_rate=LearningRateOptions(base=0.05))


def _build(images, options):
    net = layers.conv2d(images, 8, 3, stride=4, scope='tiny/conv1')  # [n, h / 4, w / 4, 8]
    return layers.conv2d(net, 8, 3, stride=4, scope='tiny/conv2'), {}  # [n, h / 16, w / 16, 8]


TINY = Backbone(name='tiny', build=_build, scope='tiny', output_strides=(16,))


_PLUGIN = """
from deeplab.registry import register
from tests.helpers.training_setup import TINY

register(TINY)
"""


def write_plugin(folder: pathlib.Path) -> list[str]:
    """Writes a plugin with `TINY`; returns the flags of a program, in a process of its own, that trains it."""
    path = folder / 'tiny.py'
    path.write_text(_PLUGIN)
    return [f'--plugins={path}', '--model_variant=tiny']


def write_data(folder: pathlib.Path) -> DatasetOptions:
    """Seven images in two shards, with a description of their data set."""
    records = [dataset_files.record(seed, 20 + seed, 30 - seed) for seed in range(IMAGES)]
    dataset_files.write_split(folder, 'train', [records[:4], records[4:]])
    description = folder / 'tiny.json'
    description.write_text(json.dumps({'num_classes': 3}))
    return DatasetOptions('train', str(folder), str(description))


def options(data: DatasetOptions, logdir, steps: int = 6, **changes) -> TrainOptions:
    """Options of a short training."""
    model = ModelOptions({common.OUTPUT_TYPE: 3}, crop_size=(17, 33), model_variant='tiny', aspp=AsppOptions(filters=8))
    known = TrainOptions(
        model, data, str(logdir), optimizer=RATE, batch_size=2, number_of_steps=steps, log_steps=1, seed=3
    )
    return dataclasses.replace(known, **changes)


def opened(options: TrainOptions):
    """The checked split of a training."""
    from deeplab.training import split_input

    return split_input.open_all_data(options, DataSource(options.dataset))


_runs = {}  # results of `trained`, by what was trained


def trained(data: DatasetOptions, logdir, steps: int = 1, note: str = '', **changes):
    """Trains as `train.run(options(...))` does, or copies what that left when this process was asked for it before.

    For tests that begin with a checkpoint, or compare with a plain training. `note` says what else is not as usual.
    """
    from deeplab import train

    wanted = options(data, logdir, steps, **changes)
    shards = sorted(pathlib.Path(data.directory).glob(f'{data.split}-*'))
    content = hashlib.sha256(b''.join(path.read_bytes() for path in [*shards, pathlib.Path(data.name)]))
    anywhere = dataclasses.replace(wanted, train_logdir='', dataset=dataclasses.replace(data, name='', directory=''))
    key = (note, repr(anywhere), content.hexdigest())
    if key not in _runs:
        folder = tempfile.mkdtemp(prefix='deeplab-tests-')
        atexit.register(shutil.rmtree, folder, True)
        _runs[key] = train.run(dataclasses.replace(wanted, train_logdir=f'{folder}/log'))
    found = _runs[key]
    shutil.copytree(pathlib.Path(found.checkpoint).parent, logdir)
    return dataclasses.replace(found, checkpoint=str(pathlib.Path(logdir, pathlib.Path(found.checkpoint).name)))


def whole_images(data: DatasetOptions) -> DatasetOptions:
    """Writes a split of four images as large as the crop or larger, whose every pixel has a label."""
    records = [dataset_files.record(seed, 40, 70) for seed in range(4)]
    dataset_files.write_split(pathlib.Path(data.directory), 'whole', [records])
    return dataclasses.replace(data, split='whole')


# Where clones, or micro-batches, make the step of the whole batch: on `whole_images`, and with `without_dropout`.
FROZEN = {'fine_tune_batch_norm': False, 'augment': AugmentOptions(1.0, 1.0, 0.0), 'batch_size': 4}


def without_dropout(monkeypatch) -> dict[str, str]:
    """Switches dropout off; returns the note that `trained` needs."""
    monkeypatch.setattr('tensorflow.nn.experimental.stateless_dropout', lambda inputs, **keywords: inputs)
    return {'note': 'without dropout'}


def losses(logdir) -> dict[int, float]:
    """The loss of each step, as a run noted them."""
    lines = map(json.loads, pathlib.Path(logdir, 'metrics.jsonl').read_text().splitlines())
    return {line['step']: line['loss'] for line in lines if 'loss' in line}


def summaries(logdir) -> dict[str, float]:
    """The last value of each summary by tag."""
    import tensorflow as tf

    found = {}
    for path in pathlib.Path(logdir).glob('events.out.tfevents.*'):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            found.update({value.tag: value.simple_value for value in event.summary.value})
    return found


def two_clones() -> CloneOptions:
    """Two clones on two CPU devices."""
    return CloneOptions(num_clones=2, clone_on_cpu=True)


def main(folder: str, logdir: str, steps: str) -> None:
    """Trains with a checkpoint after every step."""
    from absl import logging

    from deeplab import train

    logging.set_verbosity(logging.INFO)
    register(TINY)
    data = DatasetOptions('train', folder, f'{folder}/tiny.json')
    result = train.run(options(data, logdir, int(steps), save_interval_secs=0))
    print(result.report)
    sys.exit(result.status)


if __name__ == '__main__':
    main(*sys.argv[1:])
