import re

import pytest

from deeplab import cli
from deeplab.cli.words import UsageError, hints

NEEDED = {
    'train': '--train_logdir=l --dataset_dir=d',
    'eval': '--checkpoint_dir=l --eval_logdir=e --dataset_dir=d',
    'vis': '--checkpoint_dir=l --vis_logdir=v --dataset_dir=d',
    'export_model': '--checkpoint_path=c --export_path=p',
    'build_voc2012_data': '',
    'build_folder_data': '',
    'predict': 'a.jpg --checkpoint_dir=l',
    'networks': '',
    'launch': '',
    'preview': '--dataset_dir=d',
    'train_image_classifier': '',
}


def message(program, *words):
    with pytest.raises(UsageError) as error:
        cli.options_of(program, [*NEEDED[program].split(), *words])
    return str(error.value)


@pytest.mark.parametrize(
    ('program', 'words', 'wanted'),
    [
        ('train', ['--epochs=50'], '--training_number_of_steps to epochs * images / batch size'),
        ('train', ['--num-epochs', '50'], '--training_number_of_steps to epochs * images / batch size'),
        ('train', ['--lr=0.01'], '--base_learning_rate, or --adam_learning_rate'),
        ('train', ['--learning_rate=0.01'], '--base_learning_rate'),
        ('train', ['--num_steps=5'], '--training_number_of_steps'),
        ('train', ['--max_steps=5'], '--training_number_of_steps'),
        ('train', ['--batch_size=5'], '--train_batch_size'),
        ('eval', ['--batch_size=5'], '--eval_batch_size'),
        ('vis', ['--batch-size=5'], '--vis_batch_size'),
        ('train', ['--pretrained'], '--tf_initial_checkpoint=PATH'),
        ('train', ['--weights=a.ckpt'], '--tf_initial_checkpoint=PATH'),
        ('eval', ['--weights=a.ckpt'], '--checkpoint_dir=PATH'),
        ('export_model', ['--weights=a.ckpt'], '--checkpoint_path=PATH'),
        ('train', ['--resume'], 'newest checkpoint in --train_logdir'),
        ('train', ['--device=cuda:0'], 'CUDA_VISIBLE_DEVICES'),
        ('train', ['--gpus=2'], '--num_clones=N'),
        ('eval', ['--gpus=2'], 'CUDA_VISIBLE_DEVICES'),
        ('train', ['--imgsz=513'], '--train_crop_size=HEIGHT,WIDTH'),
        ('vis', ['--img_size=513'], '--vis_crop_size=HEIGHT,WIDTH'),
        ('train', ['--data=d'], '--dataset_dir'),
        ('train', ['--intra_op_threads=2'], '--num_threads'),
        ('train', ['--workers=8'], 'omit it'),
        ('train', ['--num_workers=8'], 'omit it'),
        ('build_voc2012_data', ['--workers=8'], '--num_workers'),
        ('train', ['--output_dir=o'], '--train_logdir'),
        ('export_model', ['--output_dir=o'], '--export_path'),
        ('predict', ['--out_dir=o'], 'use --output_dir.'),
        ('preview', ['--output_dir=o'], 'use --preview_path.'),
        ('launch', ['--nproc_per_node=2'], 'use --workers.'),
        ('launch', ['--num_workers=2'], 'use --workers.'),
        ('train_image_classifier', ['--epochs=2'], '--max_number_of_steps to epochs'),
        ('train_image_classifier', ['--lr=2'], 'use --learning_rate.'),
        ('train', ['--amp'], '--precision=auto, or --precision=bfloat16'),
        ('train', ['--fp16'], '--precision=float16'),
        ('train', ['--world_size=2'], 'deeplab launch, for the GPUs of one machine; --worker_hosts and --task for'),
        ('train', ['--wandb'], '--logger=tensorboard,NAME and --plugins=FILE'),
        ('eval', ['--wandb'], 'omit it. Event files for TensorBoard are written to --eval_logdir'),
        ('predict', ['--quantize'], '--calibration_dir to a folder with images'),
        ('export_model', ['--calibration_dir=c'], '--calibration_split to one of its splits'),
        ('train', ['--no-amp'], '--precision'),
        ('train', ['--random_seed=3'], '--seed'),
        ('train', ['--backbone=xception_65'], '--model_variant'),
        ('train', ['--config=c.yaml'], '--flagfile=FILE'),
        ('predict', ['--model=logs/train'], '--checkpoint_dir=PATH (to predict, an export as --export_path=PATH)'),
        ('eval', ['--model', 'xception_65'], 'the kind of network as --model_variant=NAME'),
        ('export_model', ['--model=m'], '--checkpoint_path=PATH'),
        ('train', ['--model=m'], 'use --model_variant.'),
        ('export_model', ['--quantize'], '--format=tflite:int8'),
        ('export_model', ['--precision=int8'], '--format=tflite:int8'),
        ('export_model', ['--half'], '--format=onnx:float16'),
        ('train', ['--quantize'], '--quantize_delay_step, in steps'),
        ('predict', ['--source', 'photos'], 'without a flag, or use --inputs=PATH'),
        ('build_folder_data', ['--images=photos'], '--image_folder'),
        ('build_folder_data', ['--masks=m'], '--mask_folder'),
        ('train', ['--ignore_label=255'], 'ignore_label in a data set file, --dataset=FILE.json'),
        ('train', ['--vis_split=train'], 'use --train_split.'),
        ('eval', ['--vis_split=val'], 'use --eval_split.'),
        ('train', ['--max_to_keep=10'], 'with --eval_split, the best one'),
    ],
)
def test_words_of_other_toolkits_get_the_flag_that_does_it_here(program, words, wanted):
    text = message(program, *words)
    assert text.startswith(f'Unknown flag {words[0].partition("=")[0]}')
    assert wanted in text


def test_a_hint_needs_a_flag_of_the_program():
    assert 'see deeplab networks --help' in message('networks', '--amp')


def test_every_flag_of_the_table_exists():
    known = {name for program in cli.PROGRAMS for name in program.flags}
    for hint in hints():
        assert set(hint.flags.split()) <= known, hint
        assert hint.text.format(flag='--f').endswith('.')
        assert set(re.findall(r'--(\w+)', hint.text)) <= {*known, 'flagfile'}, hint


def test_no_word_is_in_two_rows_of_the_same_flags():
    rows = [(word, flag) for hint in hints() for word in hint.words.split() for flag in hint.flags.split()]
    assert len(rows) == len(set(rows))
