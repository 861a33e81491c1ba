"""From the values of flags to options: one function for each options class."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from deeplab import common, options, presets
from deeplab.cli.data_flags import AUGMENTATION
from deeplab.cli.network_flags import HEAD, NETWORK
from deeplab.cli.parse import parse_flags
from deeplab.cli.program import find_program
from deeplab.cli.tool_flags import CLASSES
from deeplab.cli.training_flags import LABEL_WEIGHTS
from deeplab.cli.values import Values
from deeplab.cli.words import (
    normalised,
)
from deeplab.datasets import descriptor

PREVIEW_FILE = 'preview.png'


def _model_of_dataset(values: Values, crop_flag: str) -> options.ModelOptions:
    """The network that the line describes, for the classes and channels of the data set on it."""
    dataset = descriptor.load(values.path('dataset'))
    return _model_options(values, dataset.num_classes, values.size(crop_flag), dataset.image_channels)


def _model_options(
    values: Values, num_classes: int, crop_size: tuple[int, int] | None, image_channels: int = 3
) -> options.ModelOptions:
    """The network that the line describes."""
    return options.ModelOptions(
        outputs_to_num_classes={common.OUTPUT_TYPE: num_classes},
        crop_size=crop_size,
        model_variant=values['model_variant'],
        output_stride=values['output_stride'],
        depth_multiplier=values['depth_multiplier'],
        divisible_by=values['divisible_by'],
        multi_grid=values.numbers('multi_grid'),
        image_pooling_crop_size=values.size('image_pooling_crop_size'),
        image_pooling_stride=values.size('image_pooling_stride'),
        image_pyramid=values.numbers('image_pyramid'),
        merge_method=values['merge_method'],
        prediction_with_upsampled_logits=values['prediction_with_upsampled_logits'],
        logits_kernel_size=values['logits_kernel_size'],
        use_bounded_activation=values['use_bounded_activation'],
        dense_prediction_cell_json=values.path('dense_prediction_cell_json'),
        # The default on paper (0.9997) is not what every part uses, so only a decay that is given counts.
        batch_norm_decay=values.if_given('batch_norm_decay'),
        quantize_delay_step=values['quantize_delay_step'] if values['quantize_delay_step'] >= 0 else None,
        input_channels=image_channels,
        aspp=_aspp_options(values),
        decoder=_decoder_options(values),
        nas=_nas_options(values),
    )


def _aspp_options(values: Values) -> options.AsppOptions:
    return options.AsppOptions(
        rates=values.numbers('atrous_rates') or (),
        filters=values['aspp_convs_filters'],
        image_level_feature=values['add_image_level_feature'],
        with_batch_norm=values['aspp_with_batch_norm'],
        with_concat_projection=values['aspp_with_concat_projection'],
        with_separable_conv=values['aspp_with_separable_conv'],
        with_squeeze_and_excitation=values['aspp_with_squeeze_and_excitation'],
        image_se_uses_qsigmoid=values['image_se_uses_qsigmoid'],
    )


def _decoder_options(values: Values) -> options.DecoderOptions:
    return options.DecoderOptions(
        output_strides=values.numbers('decoder_output_stride') or (),
        filters=values['decoder_filters'],
        use_separable_conv=values['decoder_use_separable_conv'],
        use_sum_merge=values['decoder_use_sum_merge'],
        output_is_logits=values['decoder_output_is_logits'],
    )


def _nas_options(values: Values) -> options.NasOptions:
    return options.NasOptions(
        stem_output_filters=values['nas_stem_output_num_conv_filters'],
        remove_os32_stride=values['nas_remove_os32_stride'],
        use_classification_head=values['nas_use_classification_head'],
        # Only train has these flags; elsewhere every path is kept.
        drop_path_keep_prob=values['drop_path_keep_prob'] if 'drop_path_keep_prob' in values else 1.0,
        total_training_steps=values['training_number_of_steps'] if 'training_number_of_steps' in values else None,
    )


def _dataset_options(values: Values, split_flag: str) -> options.DatasetOptions:
    return options.DatasetOptions(
        split=values[split_flag],
        directory=values.path('dataset_dir'),
        name=values.path('dataset'),
        skip_corrupt_records=values['skip_corrupt_records'],
    )


def _resize_options(values: Values) -> options.ResizeOptions:
    return options.ResizeOptions(values['min_resize_value'], values['max_resize_value'], values['resize_factor'])


def _wait_options(values: Values, rounds_flag: str) -> options.WaitOptions:
    return options.WaitOptions(
        interval_secs=values['eval_interval_secs'],
        max_rounds=values.above_zero(rounds_flag),
        timeout_secs=values['timeout_secs'],
    )


def _prediction_options(values: Values, scales_flag: str = 'eval_scales') -> options.PredictionOptions:
    return options.PredictionOptions(values.numbers(scales_flag), values['add_flipped_images'], scales_flag)


def _learning_rate_options(values: Values) -> options.LearningRateOptions:
    return options.LearningRateOptions(
        policy=values['learning_policy'],
        base=values['base_learning_rate'],
        decay_steps=values['decay_steps'] or None,
        end=values['end_learning_rate'],
        power=values['learning_power'],
        decay_factor=values['learning_rate_decay_factor'],
        decay_step=values['learning_rate_decay_step'],
        slow_start_steps=values['slow_start_step'],
        slow_start_rate=values['slow_start_learning_rate'],
        slow_start_burnin_type=values['slow_start_burnin_type'],
    )


def _optimizer_options(values: Values) -> options.OptimizerOptions:
    return options.OptimizerOptions(
        name=values['optimizer'],
        learning_rate=_learning_rate_options(values),
        momentum=values['momentum'],
        adam_learning_rate=values['adam_learning_rate'],
        adam_epsilon=values['adam_epsilon'],
        rmsprop_decay=values['rmsprop_decay'],
        rmsprop_epsilon=values['rmsprop_epsilon'],
        clip_gradient_norm=values['clip_gradient_norm'],
        weight_decay=values['weight_decay'],
        last_layer_gradient_multiplier=values['last_layer_gradient_multiplier'],
        last_layers_contain_logits_only=values['last_layers_contain_logits_only'],
        trainable_scopes=values.names('trainable_scopes'),
    )


def _restore_options(values: Values) -> options.RestoreOptions:
    # deeplab checkpoint shows what is missing, whatever training would say to it.
    has_missing = 'ignore_missing_vars' in values
    return options.RestoreOptions(
        exclude_scopes=values.names('checkpoint_exclude_scopes'),
        ignore_missing_vars=values.if_given('ignore_missing_vars') if has_missing else None,
        rename_map=values.path('checkpoint_rename_map'),
    )


def _loss_options(values: Values) -> options.LossOptions:
    label_weights = values.numbers('label_weights')
    is_auto = bool(label_weights) and label_weights[0] == LABEL_WEIGHTS.word
    return options.LossOptions(
        formula=values['loss'],
        label_smoothing=values['label_smoothing'],
        focal_gamma=values['focal_gamma'],
        tversky_alpha=values['tversky_alpha'],
        tversky_beta=values['tversky_beta'],
        upsample_logits=values['upsample_logits'],
        label_weights=None if is_auto else label_weights,
        auto_label_weights=is_auto,
        top_k_percent_pixels=values['top_k_percent_pixels'],
        hard_example_mining_step=values['hard_example_mining_step'],
    )


def _clone_options(values: Values) -> options.CloneOptions:
    return options.CloneOptions(
        num_clones=values['num_clones'],
        clone_on_cpu=values['clone_on_cpu'],
        task=values['task'],
        num_replicas=values['num_replicas'],
        num_ps_tasks=values['num_ps_tasks'],
        master=values['master'],
        startup_delay_steps=values['startup_delay_steps'],
    )


def _validation_options(values: Values) -> options.ValidationOptions:
    return options.ValidationOptions(
        split=values['eval_split'] or None,
        every=values['eval_every'],
        crop_size=values.size('eval_crop_size'),
        early_stop=values['early_stop_evals'],
    )


def _command(values: Values) -> tuple[str, ...]:
    """The line, what it repeats included, as flags that give the same again."""
    known = find_program('train').flags
    read = normalised(values.words, known)  # preview has flags beside those of train
    return tuple(f'--{name}={value}' for name, value in read if name in known and name != 'from')


def train_options(values: Values) -> options.TrainOptions:
    """The options of train."""
    return options.TrainOptions(
        model=_model_of_dataset(values, 'train_crop_size'),
        dataset=_dataset_options(values, 'train_split'),
        train_logdir=values.path('train_logdir'),
        resize=_resize_options(values),
        augment=options.AugmentOptions(**{flag.name: values[flag.name] for flag in AUGMENTATION.flags}),
        optimizer=_optimizer_options(values),
        loss=_loss_options(values),
        clones=_clone_options(values),
        validation=_validation_options(values),
        batch_size=values['train_batch_size'],
        number_of_steps=values['training_number_of_steps'],
        fine_tune_batch_norm=values['fine_tune_batch_norm'],
        initial_checkpoint=values.path('tf_initial_checkpoint'),
        initialize_last_layer=values['initialize_last_layer'],
        restore=_restore_options(values),
        log_steps=values['log_steps'],
        save_interval_secs=values['save_interval_secs'] or None,
        save_summaries_secs=values['save_summaries_secs'] or None,
        save_summaries_images=values['save_summaries_images'],
        profile_logdir=values.path('profile_logdir'),
        seed=values['seed'],
        precision=values['precision'],
        xla=values['xla'],
        moving_average_decay=values['moving_average_decay'],
        accumulation_steps=values['accumulation_steps'],
        on_nan=values['on_nan'],
        command=_command(values),
        repeats=values.path('from'),
    )


def eval_options(values: Values) -> options.EvalOptions:
    """The options of eval."""
    return options.EvalOptions(
        model=_model_of_dataset(values, 'eval_crop_size'),
        dataset=_dataset_options(values, 'eval_split'),
        checkpoint_dir=values.path('checkpoint_dir'),
        eval_logdir=values.path('eval_logdir'),
        resize=_resize_options(values),
        prediction=_prediction_options(values),
        wait=_wait_options(values, 'max_number_of_evaluations'),
        batch_size=values['eval_batch_size'],
        master=values['master'],
        use_moving_average=values['use_moving_average'],
    )


def vis_options(values: Values) -> options.VisOptions:
    """The options of vis."""
    return options.VisOptions(
        model=_model_of_dataset(values, 'vis_crop_size'),
        dataset=_dataset_options(values, 'vis_split'),
        checkpoint_dir=values.path('checkpoint_dir'),
        vis_logdir=values.path('vis_logdir'),
        resize=_resize_options(values),
        prediction=_prediction_options(values),
        wait=_wait_options(values, 'max_number_of_iterations'),
        batch_size=values['vis_batch_size'],
        colormap_type=values.if_given('colormap_type'),
        also_save_raw_predictions=values['also_save_raw_predictions'],
        master=values['master'],
        use_moving_average=values['use_moving_average'],
    )


def export_options(values: Values) -> options.ExportOptions:
    """The options of export_model."""
    return options.ExportOptions(
        model=_model_options(values, values['num_classes'], values.size('crop_size'), values['image_channels']),
        checkpoint_path=values.path('checkpoint_path'),
        export_path=values.path('export_path'),
        resize=_resize_options(values),
        prediction=_prediction_options(values, 'inference_scales'),
        export_format=values['export_format'],
        save_inference_graph=values['save_inference_graph'],
        use_moving_average=values['use_moving_average'],
        image_bits=values['image_bits'],
    )


_PATH_FIELD = re.compile(r'(_folder|_dir|_root|^workdir)$')


def plain_options(kind: type) -> Callable[[Values], Any]:
    """Returns a function that fills the options class `kind`, whose fields are named as the flags."""

    def value_of(values: Values, name: str) -> Any:
        # A folder that is left empty on the line stays the empty text: these fields are texts, never None.
        return values.path(name) or '' if _PATH_FIELD.search(name) else values[name]

    def to_options(values: Values) -> Any:
        return kind(**{field.name: value_of(values, field.name) for field in dataclasses.fields(kind)})

    return to_options


def preview_options(values: Values) -> options.PreviewOptions:
    """The options of preview."""
    folder = values.path('train_logdir') or '.'
    path = values.path('preview_path') or os.path.join(folder, PREVIEW_FILE)
    if path.endswith(os.sep) or os.path.isdir(path):
        path = os.path.join(path, PREVIEW_FILE)
    return options.PreviewOptions(
        train=train_options(values), path=path, images=values['preview_images'], samples=values['preview_samples']
    )


def presets_options(values: Values) -> options.PresetsOptions:
    """The options of presets."""
    return options.PresetsOptions(values['name'], values['json'])


def _model_of_classes(values: Values, crop_size: tuple[int, int] | None) -> options.ModelOptions:
    """The network that the line describes, for the classes and channels that it gives, itself or by a data set."""
    classes, channels = values['num_classes'], values['image_channels']
    if values['dataset'] and (classes is None or channels is None):
        dataset = descriptor.load(values.path('dataset'))
        classes = dataset.num_classes if classes is None else classes
        channels = dataset.image_channels if channels is None else channels
    return _model_options(values, 21 if classes is None else classes, crop_size, 3 if channels is None else channels)


def networks_options(values: Values) -> options.NetworksOptions:
    """The options of networks."""
    variant, stride = values.if_given('model_variant'), values.if_given('output_stride')
    return options.NetworksOptions(
        model=_model_of_classes(values, values.size('crop_size')),
        variants=variant and (variant,),
        output_strides=(stride,) if stride else (16, 8),
        prediction=_prediction_options(values, 'eval_scales'),
        json=values['json'],
    )


def spread_against(words: Sequence[str]) -> list[str]:
    """Lets --against be followed by flags, or hold them in quotes, or name a preset."""
    spread = []
    for word in words:
        name, equals, value = word.partition('=')
        if name.lstrip('-') != 'against' or not equals or value.lower() in ('true', 'false', '1', '0'):
            spread.append(word)
        elif value.startswith('-'):
            spread += ['--against', *shlex.split(value)]
        else:
            spread += ['--against', f'--preset={value}']
    return spread


def checkpoint_options(values: Values) -> options.CheckpointOptions:
    """The options of checkpoint."""
    names = [flag.name for group in (NETWORK, HEAD, CLASSES) for flag in group.flags]
    names.append('checkpoint_exclude_scopes')
    is_asked = values['against'] or any(values.given(name) for name in names)
    takes_classes = values['num_classes'] is None and values['dataset'] is None
    only_logits = values['last_layers_contain_logits_only']
    return options.CheckpointOptions(
        file=values.path('file'),
        against=_model_of_classes(values, None) if is_asked else None,
        takes_classes=takes_classes,
        initialize_last_layer=values['initialize_last_layer'],
        last_layer_scopes=options.OptimizerOptions(last_layers_contain_logits_only=only_logits).last_layer_scopes,
        restore=_restore_options(values),
        presets=_preset_networks(),
        list_variables=values['variables'],
        json=values['json'],
    )


@functools.cache
def _preset_networks() -> dict[str, options.ModelOptions]:
    """The networks of the published checkpoints, by preset."""
    found = {}
    for name, preset in presets.all_presets().items():
        if not preset.is_backbone:
            values = parse_flags(find_program('networks'), [f'--preset={name}'])
            found[name] = _model_of_classes(values, values.size('crop_size'))
    return found


def server_options(values: Values) -> options.ServerOptions:
    """The options of server."""
    return options.ServerOptions(
        values['job_name'], values['task'], values.names('worker_hosts') or (), values.names('ps_hosts') or ()
    )
