"""TF-Slim's programs for image classification: their flags, and the flags of train and eval that do the same."""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from deeplab import options
from deeplab.cli import cluster_environment
from deeplab.cli.parse import parse_flags
from deeplab.cli.program import Program, find_program
from deeplab.cli.values import Values
from deeplab.cli.words import Flag, Group, UsageError
from deeplab.datasets import description_file, descriptor, label_file
from deeplab.errors import DataError
from deeplab.options import DatasetOptions
from deeplab.registry import BACKBONES, DATASETS, PREPROCESSINGS
from deeplab.wording import one_of

_ENDLESS = 10**9  # steps
_FLAG = re.compile(r'--(\w+)')
_WIDTH = re.compile(r'(?P<network>mobilenet_\w+)_(?P<percent>\d{3})')
# Beginnings of the names of networks whose preprocessing has another name.
_PREPROCESSINGS = {
    'inception': ('inception', 'mobilenet', 'nasnet', 'pnasnet', 'xception'),
    'vgg': ('resnet', 'vgg'),
}
_POLICIES = {'exponential': 'step', 'polynomial': 'polynomial', 'fixed': 'fixed'}
_OPTIMIZERS = ('adadelta', 'adagrad', 'adam', 'ftrl', 'momentum', 'rmsprop', 'sgd')
_WITH_EPSILON = ('adadelta', 'adam', 'rmsprop')
_TARGETS = {'train_image_classifier': 'train', 'eval_image_classifier': 'eval', 'export_inference_graph': 'networks'}
_PATHS = ('dataset_dir', 'train_dir', 'eval_dir', 'checkpoint_path', 'output_file')
_UNUSED = 'Accepted for compatibility with old command lines; it has no effect.'


class _Row(NamedTuple):
    """A flag of TF-Slim, in slim.json: its kind, default and meaning.

    Attributes:
      same: the flag here with its value; '' for none.
      near: the flag here whose value follows from it, for messages; '' for none.
    """

    name: str
    kind: str
    default: Any
    meaning: str = _UNUSED
    same: str = ''
    near: str = ''


@functools.cache
def _rows(name: str) -> tuple[_Row, ...]:
    """Returns the flags of a program."""
    content = json.loads(pathlib.Path(__file__).with_suffix('.json').read_text('utf-8'))
    common = content['shared'] + (content['input'] if name != 'export_inference_graph' else [])
    return tuple(_Row(**row) for row in common + content[name])


def _names(name: str) -> dict[str, str]:
    """Returns the flags of a program by the flags here that have the same value, or whose value follows from theirs."""
    return {here: row.name for row in _rows(name) if (here := row.same or row.near)}


class _SlimProgram(Program):
    """A program whose flags are translated."""

    @property
    def flag_names(self) -> dict[str, str]:
        """Names of its flags by the option fields that they set in the end; for other fields, of flags elsewhere.

        So messages do not name flags that it does not have as if they were its own.
        """
        target, names = find_program(_TARGETS[self.name]), _names(self.name)
        theirs = target.flag_names.items()
        ours = {field: names.get(name, f'{name} (of deeplab {target.name})') for field, name in theirs}
        return {**ours, 'InferenceGraphOptions.output_file': 'output_file'}


def _program(name: str, to_options: Callable[[Values], Any], example: str, **facts: Any) -> Program:
    flags = [Flag(row.name, row.kind, row.default, row.meaning, is_path=row.name in _PATHS) for row in _rows(name)]
    groups = (Group("TF-Slim's flags", *flags),)
    return _SlimProgram(
        name, f'--model_name=mobilenet_v2 {example}', groups, to_options, package='deeplab.slim', **facts
    )


def _translated(name: str, values: Values, words: Sequence[str]) -> Any:
    """Returns the options of the program here that does the same.

    Args:
      name: the program.
      values: the values of its flags; gets the notes and warnings.
      words: flags here, besides network, preprocessing and the flags with the same values.
    """
    rows, target = _rows(name), find_program(_TARGETS[name])
    line = ['--network_task=classification', *_network(values['model_name']), *words]
    line += [
        f'--{row.same}={values[row.name]}'
        for row in rows
        if row.same
        and values[row.name] not in (None, *([] if values.given(row.name) else [target.flags[row.same].default]))
    ]
    if 'preprocessing_name' in values and (chosen := values['preprocessing_name']):
        near = [ours for ours, beginnings in _PREPROCESSINGS.items() if chosen.startswith(beginnings)]
        line.append(f'--preprocessing_name={near[0] if near and chosen not in PREPROCESSINGS.names() else chosen}')
    if 'quantize' in values and values['quantize']:
        line.append('--quantize_delay_step=0')
    if unused := [f'--{row.name}' for row in rows if row.meaning == _UNUSED and values.given(row.name)]:
        values.notes.append(f'Accepted as in TF-Slim, without effect here: {", ".join(unused)}.')
    parsed, names = parse_flags(target, line), _names(name)
    for theirs, ours in ((parsed.notes, values.notes), (parsed.warnings, values.warnings)):
        ours += [_FLAG.sub(lambda match: f'--{names.get(match[1], match[1])}', text) for text in theirs]
    return target.to_options(parsed)


def _network(name: str) -> list[str]:
    """Returns the flags of a network with TF-Slim's name for it; raises `UsageError` if it does not exist here."""
    width = _WIDTH.fullmatch(name)
    variant = width['network'] if width else name
    if variant not in BACKBONES.names():
        raise UsageError(
            f'--model_name={name} does not exist here: it must be one of {", ".join(BACKBONES.names())}; a MobileNet '
            'may also have a width in percent, as mobilenet_v2_140.'
        )
    words = [f'--model_variant={variant}']
    return [*words, f'--depth_multiplier={int(width["percent"]) / 100}', '--divisible_by=8'] if width else words


def _dataset(values: Values) -> str:
    """Returns the data set: the description in the folder of the records, or else the name that is given.

    The name of a known data set also says more than labels.txt, such as the channels of its images.
    """
    folder, name = values.path('dataset_dir'), values['dataset_name']
    path = description_file.beside(folder) if folder else None
    if path is None or (label_file.is_numbered(path) and values.given('dataset_name') and name in DATASETS.names()):
        return str(name)
    return path


def _train_options(values: Values) -> options.TrainOptions:
    name, steps = values['optimizer'], values['max_number_of_steps']
    for flag, allowed in (('optimizer', _OPTIMIZERS), ('learning_rate_decay_type', _POLICIES)):
        if values[flag] not in allowed:
            raise UsageError(f'--{flag}={values[flag]} is not allowed: {one_of(values[flag], tuple(allowed))}.')
    if steps is None:
        values.notes.append('--max_number_of_steps is not set: the training ends when it is stopped, as by Ctrl-C.')
    words = [
        f'--dataset={_dataset(values)}',
        f'--train_batch_size={values["batch_size"] * values["num_clones"] * _workers(values)}',
        f'--training_number_of_steps={_ENDLESS if steps is None else steps}',
        f'--optimizer={"scheduled_adam" if name == "adam" else name}',
        f'--momentum={values["rmsprop_momentum" if name == "rmsprop" else "momentum"]}',
        *([f'--{name}_epsilon={values["opt_epsilon"]}'] if name in _WITH_EPSILON else []),
        *_schedule(values),
    ]
    if values['checkpoint_path']:
        words.append(f'--tf_initial_checkpoint={values.path("checkpoint_path")}')
        if values['checkpoint_exclude_scopes']:
            words.append(f'--checkpoint_exclude_scopes={values["checkpoint_exclude_scopes"]}')
    train: options.TrainOptions = _translated('train_image_classifier', values, words)
    return train


def _workers(values: Values) -> int:
    """Returns the number of synchronous workers; raises `UsageError` if --replicas_to_aggregate is another number."""
    workers = cluster_environment.number_of_workers(values)
    if values['sync_replicas'] and values['num_ps_tasks']:
        raise UsageError(
            'With --sync_replicas there are no parameter servers: omit --num_ps_tasks, --worker_replicas and --master, '
            'and name the machines with --worker_hosts.'
        )
    wanted = values['replicas_to_aggregate']
    if values['sync_replicas'] and wanted != workers and values.given('replicas_to_aggregate'):
        raise UsageError(
            f'--replicas_to_aggregate={wanted} is not allowed: it must be the number of synchronous workers, which is '
            f'{workers}. Name them with --worker_hosts, or omit it.'
        )
    return workers


def _schedule(values: Values) -> list[str]:
    """Returns the flags of the learning rate schedule, whose epochs become steps."""
    policy, warmup = values['learning_rate_decay_type'], values['warmup_epochs']
    words = [f'--learning_policy={_POLICIES[policy]}']
    if policy == 'fixed' and not warmup:
        return words
    from deeplab.datasets.segmentation_dataset import DataSource

    data = DatasetOptions(values['dataset_split_name'], values.path('dataset_dir'), _dataset(values))
    if values['batch_size'] < 1:
        raise UsageError(f'--batch_size={values["batch_size"]} is not allowed: it must be greater than 0.')
    try:
        samples = len(DataSource(data).split().open_records())
    except DataError:  # which the training reports
        samples = 1
    epoch = samples / values['batch_size'] / _workers(values)  # in steps
    decay = max(int(epoch * values['num_epochs_per_decay']), 1)
    if warmup:
        words += ['--slow_start_burnin_type=minimum', f'--slow_start_step={round(epoch * warmup)}']
    if policy == 'exponential':
        factor = values['learning_rate_decay_factor']
        words += [f'--learning_rate_decay_factor={factor}', f'--learning_rate_decay_step={decay}']
    elif policy == 'polynomial':
        words += [f'--end_learning_rate={values["end_learning_rate"]}', f'--decay_steps={decay}', '--learning_power=1']
    return words


def _eval_options(values: Values) -> options.EvalOptions:
    batches = values['max_num_batches']
    if batches is not None and batches < 1:
        raise UsageError(f'--max_num_batches={batches} is not allowed: it must be greater than 0. Omit it for all.')
    words = [
        f'--dataset={_dataset(values)}',
        '--max_number_of_evaluations=1',
        '--timeout_secs=0',
        f'--use_moving_average={values["moving_average_decay"] is not None}',
    ]
    evaluation: options.EvalOptions = _translated('eval_image_classifier', values, words)
    return dataclasses.replace(evaluation, max_images=batches and batches * values['batch_size'])


def _export_options(values: Values) -> options.InferenceGraphOptions:
    if values['is_video_model'] or values['num_frames'] is not None:
        raise UsageError('There is no network of videos here: omit --is_video_model and --num_frames.')
    dataset = descriptor.load(_dataset(values)).without_first(values['labels_offset'])
    channels = 1 if values['use_grayscale'] else dataset.image_channels
    words = [f'--num_classes={dataset.num_classes}', f'--image_channels={channels}']
    networks = _translated('export_inference_graph', values, words)
    return options.InferenceGraphOptions(
        networks.model,
        values.path('output_file'),
        values['batch_size'],
        values['is_training'],
        values['write_text_graphdef'],
    )


PROGRAMS = (
    _program(
        'train_image_classifier',
        _train_options,
        '--dataset_dir=flowers --dataset_split_name=train --train_dir=logs/train',
        required=('dataset_dir',),
        common=(
            'dataset_name dataset_dir dataset_split_name train_dir model_name preprocessing_name train_image_size '
            'batch_size max_number_of_steps num_clones optimizer learning_rate learning_rate_decay_type '
            'learning_rate_decay_factor num_epochs_per_decay warmup_epochs weight_decay label_smoothing labels_offset '
            'moving_average_decay checkpoint_path checkpoint_exclude_scopes trainable_scopes quantize_delay'
        ),
    ),
    _program(
        'eval_image_classifier',
        _eval_options,
        '--dataset_dir=flowers --dataset_split_name=validation --checkpoint_path=logs/train --eval_dir=logs/eval',
        required=('dataset_dir',),
    ),
    _program(
        'export_inference_graph',
        _export_options,
        '--dataset_dir=flowers --output_file=graph.pb',
        required=('output_file',),
    ),
)
