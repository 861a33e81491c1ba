"""The flags of the original: every name, type, default and choice that old command lines rely on.

Covers cli/shared_flags.py.
"""

import functools
import json
import pathlib
import re

import pytest

from deeplab import cli
from deeplab.cli.words import Group
from deeplab.registry import TASKS

CONTRACT = json.loads((pathlib.Path(__file__).parents[1] / 'goldens' / 'contract' / 'flags.json').read_text())
BUILT = {
    'train': 'train',
    'eval': 'eval',
    'vis': 'vis',
    'export_model': 'export_model',
    'convert_to_tflite': 'convert_to_tflite',
    'datasets/build_voc2012_data': 'build_voc2012_data',
    'datasets/build_cityscapes_data': 'build_cityscapes_data',
    'datasets/build_ade20k_data': 'build_ade20k_data',
    'datasets/remove_gt_colormap': 'remove_gt_colormap',
}
_NEW = {
    'train': """
        accumulation_steps fold unlabeled_dir unlabeled_batch_size unlabeled_weight unlabeled_confidence
        unlabeled_ramp_steps unlabeled_augmentations unlabeled_magnitude unlabeled_cutmix_probability num_threads
        clip_gradient_norm moving_average_decay quantize_per_channel adadelta_epsilon adadelta_rho
        adagrad_initial_accumulator_value adam_beta1 adam_beta2 ftrl_initial_accumulator_value ftrl_l1 ftrl_l2
        ftrl_learning_rate_power rmsprop_decay rmsprop_epsilon slow_start_burnin_type precision preset logger
        find_growth find_highest find_learning_rate find_lowest find_steps recipe seed skip_corrupt_records
        trainable_scopes checkpoint_exclude_scopes ignore_missing_vars checkpoint_rename_map jitter_brightness
        jitter_contrast jitter_saturation jitter_hue rotation_degrees blur_sigma blur_probability cutout_size
        cutout_count flip_probability rare_class_sampling vertical_flip_probability quarter_turn_probability
        affine_shear affine_stretch affine_shift elastic_pixels elastic_sigma noise_sigma jpeg_loss jitter_gamma
        mosaic_probability cutmix_probability copy_paste_probability random_augmentations random_augmentations_number
        random_augmentations_magnitude loss loss_stride label_weights_power label_smoothing focal_gamma tversky_alpha
        tversky_beta xla eval_split eval_every eval_crop_size early_stop_evals best_metric save_summaries_miou from
        on_nan reduce_precision restarts sync_batch_norm worker_hosts worker_timeout_secs""",
    'eval': """
        part engine num_threads window window_stride whole_pixels inference_threads precision boundary_f_width
        boundary_iou_width all_checkpoints bootstrap_samples bootstrap_seed calibration_bins calibration_dir ensemble
        instance_dir metrics preset quantize_per_channel skip_corrupt_records timeout_secs use_moving_average""",
    'vis': """
        part calibration_dir engine num_threads window window_stride whole_pixels inference_threads overlay_alpha
        precision preset quantize_per_channel save skip_corrupt_records submission timeout_secs use_moving_average""",
    'export_model': """
        calibration_images num_threads calibration_split dataset dataset_dir dynamic_batch export_format format
        image_bits image_channels input_type max_miou_loss onnx_opset outputs preset quantize_per_channel resizable
        sample_images serving_version serving_warmup use_moving_average verify_split""",
    'convert_to_tflite': '',
    'build_voc2012_data': 'part seed num_shards num_workers num_classes ignore_label',
    'build_cityscapes_data': 'part annotations instances seed num_shards num_workers num_classes ignore_label',
    'build_ade20k_data': """
        part class_map full_release_root instances seed num_shards num_workers num_classes ignore_label""",
    'remove_gt_colormap': 'num_workers',
}
NEW = {program: set(names.split()) for program, names in _NEW.items()}
OF_TASKS = {'network_task', *TASKS.parameters()}
NEW_CHOICES = {
    'image_format': ['npy'],
    'learning_policy': ['cosine', 'exponential', 'fixed', 'polynomial'],
    'optimizer': ['adamw', 'rmsprop', 'lars', 'lamb', 'sgd', 'adagrad', 'adadelta', 'ftrl', 'scheduled_adam'],
}
ABSL_LOGGING = {'logtostderr', 'alsologtostderr', 'v', 'verbosity', 'showprefixforinfo', 'log_dir', 'stderrthreshold'}
CASES = [(BUILT[program], name, fact) for program in BUILT for name, fact in CONTRACT[program].items()]
REQUIRED = {
    'train': ['--train_logdir=logs', '--dataset_dir=records'],
    'preview': ['--dataset_dir=records'],
    'eval': ['--checkpoint_dir=logs', '--eval_logdir=eval', '--dataset_dir=records'],
    'vis': ['--checkpoint_dir=logs', '--vis_logdir=vis', '--dataset_dir=records'],
    'average_checkpoints': ['--checkpoints=logs', '--output_dir=mean', '--dataset_dir=records'],
    'cross_validate': ['--output_dir=folds', '--dataset_dir=records'],
    'predict': ['--inputs=a.jpg', '--preset=mobilenetv2_coco_voc_trainaug'],
    'export_model': ['--checkpoint_path=logs/model.ckpt-1', '--export_path=graph'],
    'convert_to_tflite': ['--quantized_graph_def_path=graph.pb', '--output_tflite_path=model.tflite'],
    'checkpoint': ['--file=logs/model.ckpt-1'],
    'doctor': ['--data=records'],
    'rank': ['--inputs=a.jpg', '--checkpoint_dir=logs'],
    'download_and_convert_data': ['--dataset_name=flowers', '--dataset_dir=records'],
    'verify': ['--dataset_dir=records', '--preset=mobilenetv2_coco_voc_trainaug'],
    'eval_coco_format': ['--gt_json_file=a', '--gt_folder=b', '--pred_json_file=c', '--pred_folder=d'],
    'report': ['--run=logs', '--dataset_dir=records'],
    'compare': ['--run=one', '--run=two', '--dataset_dir=records'],
    'server': ['--worker_hosts=a:1,b:1,c:1', '--ps_hosts=a:2'],
    'merge': ['--folder=eval'],
    'launch': ['--workers=2', '--command=train'],
}


@pytest.fixture(scope='module', autouse=True)
def flags_read_once():
    """Reads the flags of each group once, in a tenth of the time; plugins alone change them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Group, 'flags', property(functools.cache(Group.flags.fget)))
        yield


def _values(program, *words):
    return cli.parse_flags(cli.find_program(program), [*REQUIRED.get(program, ()), *words])


@pytest.mark.parametrize(('program', 'name', 'fact'), CASES, ids=lambda value: value if isinstance(value, str) else '')
def test_flag_is_as_in_the_contract(program, name, fact):
    flag = cli.find_program(program).flags[name]
    assert flag.kind == fact['type']
    assert flag.default == fact['default']
    assert sorted(flag.choices) == sorted(fact.get('choices', []) + NEW_CHOICES.get(name, []))
    assert flag.meaning.endswith('.')


@pytest.mark.parametrize('program', BUILT.values())
def test_parsed_defaults_are_the_contract_s(program):
    contract = next(CONTRACT[key] for key, value in BUILT.items() if value == program)
    required = {word[2:].partition('=')[0] for word in REQUIRED.get(program, ())}
    values = _values(program)
    for name, fact in contract.items():
        if name in required:
            continue
        default = (
            [int(side) for side in fact['default']] if fact['type'] == 'list' and fact['default'] else fact['default']
        )
        assert values[name] == default, name
        assert type(values[name]) is type(default), name
        assert not values.given(name)


@pytest.mark.parametrize('program', BUILT.values())
def test_new_flags_are_the_ones_we_know_of(program):
    contract = next(CONTRACT[key] for key, value in BUILT.items() if value == program)
    assert set(cli.find_program(program).flags) - set(contract) - ABSL_LOGGING == NEW[program] | {'plugins'} | (
        OF_TASKS if 'model_variant' in contract else set()
    )


def test_required_flags():
    required = {program.name: set(program.required) for program in cli.PROGRAMS if program.required}
    assert required == {
        'train': {'train_logdir', 'dataset_dir'},
        'train_image_classifier': {'dataset_dir'},
        'eval_image_classifier': {'dataset_dir'},
        'export_inference_graph': {'output_file'},
        'preview': {'dataset_dir'},
        'eval': {'checkpoint_dir', 'eval_logdir', 'dataset_dir'},
        'vis': {'checkpoint_dir', 'vis_logdir', 'dataset_dir'},
        'predict': {'inputs'},
        'rank': {'inputs', 'checkpoint_dir'},
        'export_model': {'checkpoint_path', 'export_path'},
        'convert_to_tflite': {'quantized_graph_def_path', 'output_tflite_path'},
        'checkpoint': {'file'},
        'doctor': {'data'},
        'download_and_convert_data': {'dataset_name', 'dataset_dir'},
        'verify': {'dataset_dir'},
        'eval_coco_format': {'gt_json_file', 'gt_folder', 'pred_json_file', 'pred_folder'},
        'server': {'worker_hosts'},
        'merge': {'folder'},
        'launch': {'command'},
        'cross_validate': {'dataset_dir', 'output_dir'},
        'average_checkpoints': {'checkpoints', 'output_dir'},
        'report': {'run'},
        'compare': {'run'},
    }


def test_no_group_names_a_flag_twice():
    for program in cli.PROGRAMS:
        names = [flag.name for group in program.all_groups for flag in group.flags]
        assert len(names) == len(set(names)), program.name


@pytest.mark.parametrize('program', [program.name for program in cli.PROGRAMS])
def test_help_shows_every_flag_with_its_default_and_choices(program):
    record = cli.find_program(program)
    text = cli.program_help(record, is_full=True)
    for flag in record.flags.values():
        head = f'--[no]{flag.name}\n' if flag.kind == 'boolean' else f'--{flag.name}='
        assert head in text
        assert all(choice in text for choice in flag.choices)
    assert max(len(line) for line in text.splitlines()[4:]) <= cli.HELP_WIDTH
    for group in record.all_groups:
        assert f'\n{group.title}:\n' in text


@pytest.mark.parametrize('program', [program.name for program in cli.PROGRAMS])
def test_short_help_shows_the_flags_that_most_users_need(program):
    record = cli.find_program(program)
    assert {*record.common.split()} <= {*record.flags}
    assert len({*record.common.split()}) == len(record.common.split())
    lines = cli.program_help(record).splitlines()
    heads = [line.strip() for line in lines if line.startswith('  --')]
    shown = {re.split('[= ]', head.removeprefix('--').removeprefix('[no]'))[0] for head in heads}
    assert {*record.required, *record.common.split()} <= shown
    assert len(shown) <= 40 and 'log_dir' not in shown
    assert lines[-1] == f'deeplab {program} --helpfull lists all {len(record.flags)} flags.'


# label_format has a single choice; --from needs a file (tests/training/test_run_manifest.py).
UNREAD = {'intersection_offset', 'from', 'plugins', 'num_threads', 'keep_aspect_ratio', 'label_format', *ABSL_LOGGING}
UNREAD_HERE = {(program, 'label_weights') for program in ('eval', 'vis', 'export_model')}
# --published needs a file; nothing is published for other splits and strides (tests/programs/test_verify.py).
UNREAD_HERE |= {('verify', name) for name in ('published', 'eval_split', 'output_stride')}
UNREAD_HERE.add(('predict', 'export_path'))  # not with a preset (tests/programs/test_predict.py)
NEEDS = {
    **dict.fromkeys(('batch', 'size'), '--exports=a.tflite'),
    'calibration_dir': '--precision=auto',
    'class_map': '--full_release_root=release',
    'inference_threads': '--engine=tflite',
    'label_map': '--annotations=a',
    'things': '--annotations=a',
    'unlabeled': '--annotations=a',
    'boundary_f_width': '--metrics=boundary_f',
    'boundary_iou_width': '--metrics=boundary_iou',
    'bootstrap_samples': '--metrics=intervals',
    'bootstrap_seed': '--metrics=intervals',
    'calibration_bins': '--metrics=calibration',
    'instance_dir': '--metrics=instance_iou',
    'decoder_output_is_logits': '--decoder_output_stride=4',
    'onnx_opset': '--format=onnx',
    'verify_split': '--dataset_dir=records --format=frozen_graph',
    **dict.fromkeys(('input_type', 'outputs', 'resizable'), '--format=tflite'),
    **dict.fromkeys(('serving_version', 'serving_warmup'), '--format=saved_model'),
    'focal_gamma': '--loss=focal',
    'logits_kernel_size': '--noaspp_with_batch_norm',
    'quantize_per_channel': '--quantize_delay_step=0',
    'tversky_alpha': '--loss=tversky',
    'tversky_beta': '--loss=tversky',
    'label_weights_power': '--label_weights=auto',
}
NEEDS_IN_DOCTOR = {'ignore_other_ids': '--fix=copy --num_classes=3'}
NEEDS_OF_INSTANCES = {
    'benchmark': {'calibration_dir': '--inference_precision=auto'},
    'build_folder_data': {
        'instances': '--annotations=a',
        'depth_scale': '--depth_folder=depth',
        'tile_overlap': '--tile_size=64,64',
    },
    'predict': dict.fromkeys(('bands', 'value_range'), '--save=geotiff')
    | dict.fromkeys(('polygon_tolerance', 'minimum_area'), '--save=coco')
    | {'ensemble': '--checkpoint_dir=logs'},
    'build_ade20k_data': {'instances': '--full_release_root=release'},
    'export_model': {'max_miou_loss': '--verify_split=val --dataset_dir=records --format=frozen_graph'},
}
WITH_THOSE_OF_TRAIN = ('preview', 'benchmark')
WITH_THOSE_OF_ANOTHER = {
    'average_checkpoints': 'train',
    'cross_validate': 'train',
    'report': 'eval',
    'compare': 'report',
}  # tests/programs/test_report.py: they are passed on
# Of train and preview: what is about the initial checkpoint is refused without one.
NEEDS_IN_TRAIN = dict.fromkeys(
    ('checkpoint_exclude_scopes', 'checkpoint_rename_map'), '--tf_initial_checkpoint=model.ckpt'
)
NEEDS_IN_TRAIN |= dict.fromkeys(
    ('eval_split', 'eval_every', 'eval_crop_size', 'early_stop_evals', 'best_metric'), '--eval_split=val --eval_every=5'
)
NEEDS_IN_TRAIN |= dict.fromkeys(('find_steps', 'find_lowest', 'find_highest', 'find_growth'), '--find_learning_rate')
NEEDS_IN_TRAIN |= {name: '--unlabeled_dir=photos' for name in NEW['train'] if name.startswith('unlabeled_')}
NEEDS_IN_TRAIN |= {'unlabeled_dir': ''}
SERVER = '--master=grpc://here:1'
NEEDS_IN_TRAIN |= {
    'num_ps_tasks': SERVER,
    'num_replicas': f'{SERVER} --num_ps_tasks=1',
    'task': f'{SERVER} --num_ps_tasks=1 --num_replicas=3',
    **dict.fromkeys(('worker_timeout_secs', 'restarts', 'reduce_precision'), '--worker_hosts=a:1,b:1'),
}
OTHER_VALUES = {
    'class_balance': '0.25',
    'workers': '3',
    'command': 'train_image_classifier',
    'ftrl_learning_rate_power': '-1',
    'atrous_rates': '6',
    'blur_probability': '0.25',
    'batch': '2',
    'bootstrap_samples': '200',
    'crop_size': '4,2',
    'dataset': 'cityscapes',
    'flip_probability': '0.25',
    'unlabeled_augmentations': 'blur',
    'unlabeled_cutmix_probability': '0.25',
    'format': 'tflite',
    'image_bits': '16',
    'loss': 'focal',
    'master': 'grpc://there:1',
    'metrics': 'image_iou',
    'logger': '',
    'max_side': '640',
    'min_scale_factor': '0.25',
    'value_range': '0,100',
    'onnx_opset': '17',
    'output_stride': '32',
    'overlay_alpha': '0.25',
    'part': '1/2',
    'preset': 'edgetpu_deeplab',
    'recipe': 'small_data',
    'find_steps': '50',
    'preview_path': 'other.png',
    'ps_hosts': 'b:2',
    'random_augmentations': 'gamma',
    'random_augmentations_magnitude': '0.25',
    'random_augmentations_number': '3',
    'save': 'overlay',
    'train_batch_size': '4',
    'worker_hosts': 'a:1,b:1',
}
OTHER_VALUES_OF_KINDS = {'string': 'other', 'integer': '2', 'float': '0.5', 'list': '4,2'}
OTHER_VALUES_OF_KINDS |= {'repeated integer': '2', 'repeated float': '0.5', 'repeated string': 'other'}


def _other_value(flag):
    """A value that is allowed, and not the default."""
    if flag.kind == 'enum':
        return next(choice for choice in reversed(flag.choices) if choice != flag.default)
    if flag.kind == 'boolean':
        return str(not flag.default).lower()
    return OTHER_VALUES.get(flag.name, OTHER_VALUES_OF_KINDS[flag.kind])


@pytest.mark.parametrize('program', WITH_THOSE_OF_TRAIN)
def test_flags_of_train_reach_the_options_of_train(program):
    words = [*REQUIRED['train'], '--optimizer=adam', '--train_batch_size=6', '--output_stride=8']
    assert cli.options_of(program, words).train == cli.options_of('train', words)
    assert set(cli.find_program('train').flags) <= set(cli.find_program(program).flags)


# Programs whose flags are translated have tests in test_slim.py.
@pytest.mark.parametrize('program', [each.name for each in cli.PROGRAMS if each.package != 'deeplab.slim'])
def test_every_flag_reaches_the_options(program):
    """A flag that sets no option would be ignored silently."""
    same = 'train' if program in WITH_THOSE_OF_TRAIN else WITH_THOSE_OF_ANOTHER.get(program)
    shared = cli.find_program(same).flags if same else {}
    plain = functools.cache(lambda *words: cli.options_of(program, words))
    for flag in cli.find_program(program).flags.values():
        if flag.name in UNREAD or (program, flag.name) in UNREAD_HERE or flag.name in shared:
            continue
        needed = NEEDS | {'train': NEEDS_IN_TRAIN, 'doctor': NEEDS_IN_DOCTOR, **NEEDS_OF_INSTANCES}.get(program, {})
        words = [*REQUIRED.get(program, ()), *needed.get(flag.name, '').split()]
        changed = cli.options_of(program, [*words, f'--{flag.name}={_other_value(flag)}'])
        assert changed != plain(*words), flag.name
