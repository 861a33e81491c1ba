"""Creates the options of a program from the values of its flags, where these are not plain copies."""

from __future__ import annotations

import dataclasses
import functools
import os
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from deeplab import common, names, options
from deeplab.cli import cluster_environment, plugin_flags
from deeplab.cli.links import filled
from deeplab.cli.parse import given_fields, parse_flags
from deeplab.cli.program import find_program
from deeplab.cli.shared_flags import CLASSES, HEAD, NETWORK, RESIZE
from deeplab.cli.values import Values
from deeplab.cli.words import Group, UsageError
from deeplab.datasets import descriptor
from deeplab.registry import TASKS
from deeplab.zoo import catalog

PREVIEW_FILE = 'preview.png'
_STRIDE = 'output_stride'


def dataset_and_model(values: Values) -> tuple[options.DatasetOptions, options.ModelOptions]:
    """Returns the split, and the network that the flags describe for the classes and channels of its data set."""
    name = values.path('dataset')
    dataset = descriptor.load(name)
    model = _model_options(values, dataset.num_classes, input_channels=dataset.image_channels)
    if model.is_per_image and model.labels_offset:
        dataset = dataset.without_first(model.labels_offset)
        model = dataclasses.replace(model, outputs_to_num_classes={common.OUTPUT_TYPE: dataset.num_classes})
    return filled(options.DatasetOptions, values, loaded=(name, dataset)), model


def _model_options(values: Values, num_classes: int, **given: Any) -> options.ModelOptions:
    """Returns the network that the flags describe; `given` are fields that no flag sets.

    If the output of the decoder is the logits, and --decoder_filters is not given, it is the number of classes.
    """
    decoder = filled(options.DecoderOptions, values)
    if decoder.output_is_logits and not values.given('decoder_filters'):
        decoder = dataclasses.replace(decoder, filters=num_classes)
    return filled(
        options.ModelOptions,
        values,
        outputs_to_num_classes={common.OUTPUT_TYPE: num_classes},
        decoder=decoder,
        **given,
    )


def _engine_options(values: Values) -> options.EngineOptions:
    """Returns the engine; others than TensorFlow compute with --num_threads unless they have a number of their own."""
    engine = filled(options.EngineOptions, values)
    if engine.threads is not None or engine.engine == options.DEFAULT_ENGINE or values['num_threads'] is None:
        return engine
    return dataclasses.replace(engine, threads=values['num_threads'])


def _loss_options(values: Values) -> options.LossOptions:
    label_weights = values.numbers('label_weights')
    is_auto = bool(label_weights) and label_weights[0] == values.known['label_weights'].word
    return filled(
        options.LossOptions, values, label_weights=None if is_auto else label_weights, auto_label_weights=is_auto
    )


def _command(values: Values) -> tuple[str, ...]:
    """Returns the command line as flags that repeat it, including the flags of a run that it repeats itself."""
    flags = find_program('train').flags  # preview has more
    return tuple(f'--{name}={value}' for name, value in values.line if name in flags and name != 'from')


def train_options(values: Values) -> options.TrainOptions:
    """Returns the options of train; the environment may name the synchronous workers."""
    cluster_environment.assume(values)
    return _train_options(values)


def _train_options(values: Values) -> options.TrainOptions:
    dataset, model = dataset_and_model(values)
    of_train = find_program('train').flag_names
    return filled(
        options.TrainOptions,
        values,
        model=model,
        dataset=dataset,
        loss=_loss_options(values),
        validation=_validation_options(values),
        command=_command(values),
        recipe_flags=tuple(values.recipe_flags),
        given={field: value for field, value in given_fields(values).items() if field in of_train},  # others have more
        plugins=tuple(plugin_flags.named_in(values.words)),
    )


def _validation_options(values: Values) -> options.ValidationOptions:
    split, every = values['eval_split'] or None, values['eval_every']
    if values['fold'] is not None and split is None:  # a validation after the last step, if nothing else is given
        split = options.split_of_fold(values['fold'])
        every = every or values['training_number_of_steps']
    return filled(options.ValidationOptions, values, split=split, every=every)


def eval_options(values: Values) -> options.EvalOptions:
    """Returns the options of eval."""
    dataset, model = dataset_and_model(values)
    further = _further_checkpoint_dirs(values)
    return filled(
        options.EvalOptions,
        values,
        model=model,
        dataset=dataset,
        further_checkpoint_dirs=further,
        network=given_network(values, model) if values['ensemble'] or further else _given_of_tasks(values, model),
        fits_crop_size=not values.given('eval_crop_size'),
        engine=_engine_options(values),
    )


def _further_checkpoint_dirs(values: Values) -> tuple[str, ...]:
    """Returns the values of --checkpoint_dir before the last one, which is the value of the original's flag."""
    return tuple(os.path.expanduser(text) for name, text in values.line if name == 'checkpoint_dir')[:-1]


def folder_options(values: Values) -> options.BuildFolderOptions:
    """Returns the options of build_folder_data."""
    names = values.names('class_names')
    if len(names) == 1:  # perhaps a file
        names = (os.path.expanduser(names[0]),)
    label_map = values.names('label_map')
    if len(label_map) == 1 and '=' not in label_map[0]:
        label_map = (os.path.expanduser(label_map[0]),)
    return filled(options.BuildFolderOptions, values, class_names=names, label_map=label_map)


def vis_options(values: Values) -> options.VisOptions:
    """Returns the options of vis."""
    dataset, model = dataset_and_model(values)
    has_windows = filled(options.WindowOptions, values) != options.WindowOptions()
    if has_windows and not values.given('vis_crop_size'):
        model = dataclasses.replace(model, crop_size=None)  # images then keep their sizes
    return filled(
        options.VisOptions,
        values,
        model=model,
        dataset=dataset,
        engine=_engine_options(values),
        save=_saved(values),
        network=_given_of_tasks(values, model),
    )


def _saved(values: Values) -> tuple[str, ...]:
    """Returns the kinds of pictures that vis or predict writes; what describes overlays asks for overlays."""
    wants_overlays = any(values.given(flag) for flag in ('overlay_alpha', 'overlay_legend') if flag in values)
    given = values.names('save')
    kinds = (*given, *(['overlay'] if wants_overlays and options.VIDEO not in given else []))
    return tuple(dict.fromkeys(kinds))


def export_options(values: Values) -> options.ExportOptions:
    """Returns the options of export_model."""
    stride, model = values['output_stride'], _model_options(values, values['num_classes'])
    is_known = values.given('output_stride') or values.assumed('output_stride')
    if not (is_known or model.is_per_image):  # a classifier has its own stride
        values.notes.append(
            f'The export has output stride {stride}, the default of export_model (16 in train, eval and predict). Set '
            '--output_stride if the network was trained with another one.'
        )
    return filled(
        options.ExportOptions,
        values,
        model=model,
        formats=tuple(part.strip() for text in values.texts('format') for part in text.split(',') if part.strip()),
    )


def plain_options(kind: type) -> Callable[[Values], Any]:
    """Returns a function that creates `kind`, an options class with nothing but copies of flags."""
    return functools.partial(filled, kind)


def preview_options(values: Values) -> options.PreviewOptions:
    """Returns the options of preview."""
    folder = values.path('train_logdir') or '.'
    path = values.path('preview_path') or os.path.join(folder, PREVIEW_FILE)
    if path.endswith(os.sep) or os.path.isdir(path):
        path = os.path.join(path, PREVIEW_FILE)
    return filled(options.PreviewOptions, values, train=_train_options(values), path=path)


# Flags of train that cross_validate sets itself.
OF_EACH_FOLD = ('fold', 'train_split', 'eval_split', 'train_logdir')


def cross_validate_options(values: Values) -> options.CrossValidateOptions:
    """Returns the options of cross_validate.

    Raises:
      UsageError: a flag is given that the program sets itself for each fold.
    """
    for name in OF_EACH_FOLD:
        if values.given(name):
            raise UsageError(
                f'--{name}={values[name]} is not allowed: cross_validate trains without each fold in turn, in a folder '
                f'of its own below --output_dir, and validates on it. Omit --{name}.'
            )
    values.assume('fold', 1)
    values.assume('train_logdir', values['output_dir'])
    command = ('deeplab', 'cross_validate', *values.words)
    train = _train_options(values)
    return filled(options.CrossValidateOptions, values, train=train, save=values.names('save'), command=command)


def average_options(values: Values) -> options.AverageOptions:
    """Returns the options of average_checkpoints."""
    return filled(options.AverageOptions, values, train=_train_options(values))


def benchmark_options(values: Values) -> options.BenchmarkOptions:
    """Returns the options of benchmark."""
    return filled(options.BenchmarkOptions, values, train=_train_options(values))


def _model_of_classes(values: Values) -> options.ModelOptions:
    """Returns the network that the flags describe; a data set states the classes and channels that flags do not."""
    classes, channels = values['num_classes'], values['image_channels']
    if values['dataset'] and (classes is None or channels is None):
        dataset = descriptor.load(values.path('dataset'))
        classes = dataset.num_classes if classes is None else classes
        channels = dataset.image_channels if channels is None else channels
    classes = _classes_of_decoder(values) if classes is None else classes
    return _model_options(
        values, 21 if classes is None else classes, input_channels=3 if channels is None else channels
    )


def _classes_of_decoder(values: Values) -> int | None:
    """Returns the number of classes if the decoder makes the logits and its channels are given; else None."""
    channels: int | None = values.if_given('decoder_filters')
    return channels if values['decoder_output_is_logits'] else None


def networks_options(values: Values) -> options.NetworksOptions:
    """Returns the options of networks."""
    variant, stride = values.if_given('model_variant'), values.if_given('output_stride')
    return filled(
        options.NetworksOptions,
        values,
        model=_model_of_classes(values),
        variants=variant and (variant,),
        output_strides=(stride,) if stride else (16, 8),
    )


def given_network(values: Values, model: options.ModelOptions | None = None) -> dict[str, Any]:
    """Returns the options of the network that flags set, by 'Class.field'; `model` is what the flags describe."""
    model = model or _model_options(values, 21)  # only the fields given on the command line are used
    parts = {type(part).__name__: part for part in (model, model.aspp, model.decoder, model.nas)}
    flags = [flag for group in (NETWORK, HEAD) for flag in group.flags if values.given(flag.name)]
    fields = [field.partition('.') for flag in flags for field in flag.fields]
    return {f'{kind}.{name}': getattr(parts[kind], name) for kind, _, name in fields if kind in parts}


def _given_of_tasks(values: Values, model: options.ModelOptions) -> dict[str, Any]:
    """Returns the parameters of tasks that flags set, which take precedence over the settings of an export."""
    given = given_network(values, model)
    return {field: value for field, value in given.items() if field.partition('.')[2] in TASKS.parameters()}


def predict_options(values: Values) -> options.PredictOptions:
    """Returns the options of predict."""
    predictor = filled(options.PredictorOptions, values, execution=_engine_options(values))
    save = None if values['save'] is None else _saved(values)  # None: the usual kinds
    further = _further_checkpoint_dirs(values) if values['ensemble'] else ()
    return filled(
        options.PredictOptions,
        values,
        predictor=predictor,
        network=given_network(values),
        save=save,
        further_checkpoint_dirs=further,
    )


def rank_options(values: Values) -> options.RankOptions:
    """Returns the options of rank."""
    predictor = filled(options.PredictorOptions, values, execution=_engine_options(values))
    return filled(options.RankOptions, values, predictor=predictor, network=given_network(values))


def spread_against(words: Sequence[str]) -> list[str]:
    """Returns the words with --against='FLAGS' and --against=PRESET written as --against and flags.

    Raises:
      UsageError: a quote in FLAGS is not closed.
    """
    spread = []
    for word in words:
        name, equals, value = word.partition('=')
        if name.lstrip('-') != 'against' or not equals or value.lower() in ('true', 'false', '1', '0'):
            spread.append(word)
        elif value.startswith('-'):
            try:
                spread += ['--against', *shlex.split(value)]
            except ValueError as error:
                raise UsageError(
                    f'--against={value} cannot be split into flags ({names.lower_first(str(error))}). Close the quote, '
                    'or write --against and the flags after it.'
                ) from None
        else:
            spread += ['--against', f'--preset={value}']
    return spread


def checkpoint_options(values: Values) -> options.CheckpointOptions:
    """Returns the options of checkpoint."""
    names = [flag.name for group in (NETWORK, HEAD, CLASSES) for flag in group.flags]
    names.append('checkpoint_exclude_scopes')
    is_asked = values['against'] or any(values.given(name) for name in names)
    takes_classes = values['num_classes'] is None and values['dataset'] is None and _classes_of_decoder(values) is None
    against = _model_of_classes(values) if is_asked else None
    optimizer = options.OptimizerOptions(last_layers_contain_logits_only=values['last_layers_contain_logits_only'])
    return filled(
        options.CheckpointOptions,
        values,
        against=against,
        takes_classes=takes_classes,
        last_layer_scopes=(against and against.classifier_scopes) or optimizer.last_layer_scopes,
        presets=_preset_networks(),
    )


@functools.cache
def _preset_networks() -> dict[str, options.ModelOptions]:
    networks = {}
    for name, preset in catalog.all_presets().items():
        if not preset.is_backbone:
            values = parse_flags(find_program('networks'), [f'--preset={name}'])
            networks[name] = _model_of_classes(values)
    return networks


def verify_options(values: Values) -> options.VerifyOptions:
    """Returns the options of verify.

    Raises:
      UsageError: nothing is published for the split.
    """
    rows = _published(values)
    has_stride = any(name == _STRIDE for name, _ in values.line)
    chosen = [row for row in rows if row.split == values['eval_split']]
    if has_stride:
        chosen = [row for row in chosen if row.output_stride == values[_STRIDE]]
    if not chosen:
        published = '; '.join(f'{row.split} at output stride {row.output_stride}' for row in rows)
        raise UsageError(
            f'Nothing is published for --eval_split={values["eval_split"]}'
            + (f' at --output_stride={values[_STRIDE]}' if has_stride else '')
            + f'. Known: {published}.'
        )
    return filled(
        options.VerifyOptions,
        values,
        cases=tuple(_case(row, values) for row in chosen),
        dataset=dataset_and_model(values)[0],
        preset=values['preset'],
        fits_crop_size=not values.given('eval_crop_size'),
        other_predictions=tuple(options.PredictionOptions(row.scales, row.flips) for row in rows),
    )


def _published(values: Values) -> list[catalog.Published]:
    """Returns the published evaluations, from a file or from the preset, with the names of splits in the records."""
    preset = catalog.get(values['preset']) if values['preset'] else None
    if values['published']:
        rows = catalog.read_published(values.path('published'))
    elif preset is not None:
        rows = preset.published
    else:
        raise UsageError('verify requires --preset (a published checkpoint) or --published (a file with figures).')
    return [dataclasses.replace(row, split=catalog.split_of(preset, row.split)) if preset else row for row in rows]


def _case(row: catalog.Published, values: Values) -> options.VerifyCase:
    """Returns the settings of one published evaluation, and those without the flags that override the preset."""
    case = _settings(row, values.words)
    flags = (*NETWORK.flags, *HEAD.flags, *Group('Sizes', *RESIZE).flags)
    names = {flag.name for flag in flags} | {'eval_crop_size'}
    overrides = tuple(f'--{name}={text}' for name, text in values.line if name in names - {'preset', _STRIDE})
    if not values['preset'] or not overrides:
        return case
    kept = ('preset', 'plugins', 'dataset', 'dataset_dir', 'published')
    published = _settings(row, [f'--{name}={text}' for name, text in values.line if name in kept])
    return case if published == case else dataclasses.replace(case, as_published=published, overrides=overrides)


def _settings(row: catalog.Published, words: Sequence[str]) -> options.VerifyCase:
    """Returns the settings of a published evaluation with the network of a command line."""
    values = parse_flags(find_program('verify'), [*words, f'--{_STRIDE}={row.output_stride}'])
    prediction = options.PredictionOptions(row.scales, row.flips)
    _, model = dataset_and_model(values)
    return options.VerifyCase(row.miou, model, filled(options.ResizeOptions, values), prediction)
