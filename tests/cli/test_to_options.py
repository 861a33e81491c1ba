"""Command lines of the original and of people: the options that they make."""

from deeplab import cli, options

EVAL = ['--checkpoint_dir=logs', '--eval_logdir=eval', '--dataset_dir=records']


def _line(text):
    """Splits a command line into words as a shell does."""
    return text.split()


def test_train_line_of_2018_for_voc():
    made = cli.options_of(
        'train',
        _line(
            '--logtostderr --training_number_of_steps=30000 --train_split=train --model_variant=xception_65'
            ' --atrous_rates=6 --atrous_rates=12 --atrous_rates=18 --output_stride=16 --decoder_output_stride=4'
            ' --train_crop_size=513 --train_crop_size=513 --train_batch_size=1 --dataset=pascal_voc_seg'
            ' --tf_initial_checkpoint=init/model.ckpt --train_logdir=train_on_train_set/train --dataset_dir=tfrecord'
        ),
    )
    assert made == options.TrainOptions(
        model=options.ModelOptions(
            outputs_to_num_classes={'semantic': 21},
            crop_size=(513, 513),
            model_variant='xception_65',
            output_stride=16,
            aspp=options.AsppOptions(rates=(6, 12, 18)),
            decoder=options.DecoderOptions(output_strides=(4,)),
            nas=options.NasOptions(total_training_steps=30000),
        ),
        dataset=options.DatasetOptions(split='train', directory='tfrecord', name='pascal_voc_seg'),
        train_logdir='train_on_train_set/train',
        initial_checkpoint='init/model.ckpt',
        batch_size=1,
        number_of_steps=30000,
    )


def test_train_line_of_2019_for_cityscapes():
    made = cli.options_of(
        'train',
        _line(
            '--logtostderr --training_number_of_steps=90000 --train_split=train_fine --model_variant=xception_71'
            ' --atrous_rates=6 --atrous_rates=12 --atrous_rates=18 --output_stride=16 --decoder_output_stride=4'
            ' --train_crop_size=769,769 --train_batch_size=8 --num_clones=4 --fine_tune_batch_norm=false'
            ' --base_learning_rate=0.007 --learning_policy=poly --dataset=cityscapes --initialize_last_layer=0'
            ' --tf_initial_checkpoint=x71/model.ckpt --train_logdir=logs --dataset_dir=cityscapes/tfrecord'
        ),
    )
    assert made.model.outputs_to_num_classes == {'semantic': 19}
    assert made.model.crop_size == (769, 769)
    assert made.dataset.split == 'train_fine'
    assert made.clones.num_clones == 4
    assert made.clone_batch_size == 2
    assert made.fine_tune_batch_norm is False
    assert made.initialize_last_layer is False
    assert made.optimizer.learning_rate == options.LearningRateOptions(base=0.007)


def test_train_line_of_2018_for_ade20k():
    made = cli.options_of(
        'train',
        _line(
            '--logtostderr --training_number_of_steps=150000 --train_split=train --model_variant=xception_65'
            ' --atrous_rates=6 --atrous_rates=12 --atrous_rates=18 --output_stride=16 --decoder_output_stride=4'
            ' --train_crop_size=513 --train_crop_size=513 --train_batch_size=4 --min_resize_value=513'
            ' --max_resize_value=513 --resize_factor=16 --dataset=ade20k'
            ' --tf_initial_checkpoint=init/model.ckpt --train_logdir=logs --dataset_dir=ADE20K/tfrecord'
        ),
    )
    assert made.model.num_classes == 151
    assert made.resize == options.ResizeOptions(513, 513, 16)
    assert made.number_of_steps == 150000


def test_eval_line_of_2018_for_voc():
    made = cli.options_of(
        'eval',
        _line(
            '--logtostderr --eval_split=val --model_variant=xception_65 --atrous_rates=6 --atrous_rates=12'
            ' --atrous_rates=18 --output_stride=16 --decoder_output_stride=4 --eval_crop_size=513'
            ' --eval_crop_size=513 --dataset=pascal_voc_seg --checkpoint_dir=train --eval_logdir=eval'
            ' --dataset_dir=tfrecord'
        ),
    )
    assert made == options.EvalOptions(
        model=options.ModelOptions(
            outputs_to_num_classes={'semantic': 21},
            crop_size=(513, 513),
            model_variant='xception_65',
            aspp=options.AsppOptions(rates=(6, 12, 18)),
            decoder=options.DecoderOptions(output_strides=(4,)),
        ),
        dataset=options.DatasetOptions(split='val', directory='tfrecord'),
        checkpoint_dir='train',
        eval_logdir='eval',
    )


def test_eval_line_with_scales_and_flips_for_cityscapes():
    made = cli.options_of(
        'eval',
        _line(
            '--logtostderr --eval_split=val_fine --output_stride=8 --atrous_rates=12 --atrous_rates=24'
            ' --atrous_rates=36 --model_variant=xception_65 --decoder_output_stride=4 --eval_crop_size=1025,2049'
            ' --eval_scales=0.75 --eval_scales=1.0 --eval_scales=1.25 --add_flipped_images --dataset=cityscapes'
            ' --max_number_of_evaluations=1 --checkpoint_dir=train --eval_logdir=eval --dataset_dir=tfrecord'
        ),
    )
    assert made.model.crop_size == (1025, 2049)
    assert made.model.output_stride == 8
    assert made.model.aspp.rates == (12, 24, 36)
    assert made.prediction == options.PredictionOptions((0.75, 1.0, 1.25), add_flipped_images=True)
    assert made.wait == options.WaitOptions(interval_secs=300, max_rounds=1, timeout_secs=None)


def test_vis_lines_of_both_years():
    common = (
        '--logtostderr --vis_split=val_fine --model_variant=mobilenet_v2 --dataset=cityscapes'
        ' --colormap_type=cityscapes --checkpoint_dir=train --vis_logdir=vis --dataset_dir=tfrecord'
        ' --also_save_raw_predictions=true --max_number_of_iterations=1'
    )
    old = cli.options_of('vis', _line(f'{common} --vis_crop_size=1025 --vis_crop_size=2049'))
    new = cli.options_of('vis', _line(f'{common} --vis_crop_size=1025,2049'))
    assert old == new
    assert old.model.crop_size == (1025, 2049)
    assert old.colormap_type == 'cityscapes'
    assert old.also_save_raw_predictions is True
    assert old.wait.max_rounds == 1


def test_line_of_the_mobilenet_v3_checkpoint():
    made = cli.options_of(
        'eval',
        _line(
            '--model_variant=mobilenet_v3_large_seg --image_pooling_crop_size=769,769 --image_pooling_stride=4,5'
            ' --add_image_level_feature=1 --aspp_convs_filters=128 --aspp_with_concat_projection=0'
            ' --aspp_with_squeeze_and_excitation=1 --decoder_use_sum_merge=1 --decoder_filters=19'
            ' --decoder_output_is_logits=1 --image_se_uses_qsigmoid=1 --decoder_output_stride=8 --output_stride=32'
            ' --dataset=cityscapes --eval_crop_size=1025,2049'
        )
        + EVAL,
    )
    assert made.model.image_pooling_crop_size == (769, 769)
    assert made.model.image_pooling_stride == (4, 5)
    assert made.model.aspp == options.AsppOptions(
        filters=128,
        with_concat_projection=False,
        with_squeeze_and_excitation=True,
        image_se_uses_qsigmoid=True,
    )
    assert made.model.decoder == options.DecoderOptions((8,), 19, use_sum_merge=True, output_is_logits=True)


def test_builder_lines():
    voc = cli.options_of(
        'build_voc2012_data',
        _line(
            '--image_folder=JPEGImages --semantic_segmentation_folder=SegmentationClassRaw'
            ' --list_folder=ImageSets/Segmentation --image_format=jpg --output_dir=tfrecord'
        ),
    )
    assert voc == options.BuildVocOptions(
        image_folder='JPEGImages',
        semantic_segmentation_folder='SegmentationClassRaw',
        list_folder='ImageSets/Segmentation',
        image_format='jpg',
        output_dir='tfrecord',
    )
    cityscapes = cli.options_of('build_cityscapes_data', _line('--cityscapes_root=cs --output_dir=cs/tfrecord'))
    assert cityscapes == options.BuildCityscapesOptions(cityscapes_root='cs', output_dir='cs/tfrecord')
    ade20k = cli.options_of('build_ade20k_data', _line('--image_format=jpg --num_shards=2 --num_workers=3 --seed=4'))
    assert ade20k == options.BuildAde20kOptions(image_format='jpg', num_shards=2, num_workers=3, seed=4)
    masks = cli.options_of('remove_gt_colormap', _line('--original_gt_folder=a --output_dir=b'))
    assert masks == options.RemoveColormapOptions(original_gt_folder='a', output_dir='b')


def test_builders_called_without_flags_look_where_they_always_did():
    assert cli.options_of('build_voc2012_data', []) == options.BuildVocOptions()
    assert cli.options_of('build_cityscapes_data', []) == options.BuildCityscapesOptions()
    assert cli.options_of('build_ade20k_data', []) == options.BuildAde20kOptions()
    assert cli.options_of('remove_gt_colormap', []) == options.RemoveColormapOptions()
    assert cli.options_of('demo', []) == options.DemoOptions()
