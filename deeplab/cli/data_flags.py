"""Flags of data sets, builders and augmentation."""

from __future__ import annotations

from deeplab import options
from deeplab.cli.log_flags import LOG
from deeplab.cli.words import (
    Flag,
    Group,
)

SEED = Flag('seed', 'integer', 0, 'Where all random choices start from. Two runs with one seed do the same.')
_KEEP_ASPECT_RATIO = Flag(
    'keep_aspect_ratio', 'boolean', True, 'Accepted for old command lines; it has never had an effect.'
)
RESIZE = (
    Flag('min_resize_value', 'integer', None, 'Resize each image until its shorter side has this many pixels.'),
    Flag('max_resize_value', 'integer', None, 'The longer side gets no more pixels than this when images are resized.'),
    Flag(
        'resize_factor',
        'integer',
        None,
        'Resized sides become a multiple of this plus 1; it should equal --output_stride.',
    ),
    _KEEP_ASPECT_RATIO,
)


def data_group(prefix: str, split: str, *more: Flag) -> Group:
    """The flags that say what is read: `prefix` is train, eval or vis."""
    return Group(
        'Data',
        (
            Flag('dataset_dir', 'string', None, 'Folder of the TFRecord shards that a builder wrote.'),
            Flag(
                'dataset',
                'string',
                'pascal_voc_seg',
                'The data set: a known name (ade20k, camvid, cityscapes, pascal_voc_seg), a Python module that '
                'defines DATASET, or a JSON or YAML file.',
            ),
            Flag(f'{prefix}_split', 'string', split, 'Which split to read: the shards named SPLIT-*.'),
            Flag(
                f'{prefix}_crop_size',
                'list',
                ['513', '513'],
                'Height and width, in pixels, that the network sees: 513,513, or the flag twice with one number '
                'each. Best is a multiple of --output_stride plus 1'
                + ('.' if prefix == 'train' else ', and no image may be larger.'),
            ),
            *more,
            *RESIZE,
            Flag(
                'skip_corrupt_records',
                'boolean',
                False,
                'Leave out, and count, records that cannot be read, instead of stopping at the first.',
            ),
        ),
    )


AUGMENTATION = Group(
    'Random changes to training images',
    (
        Flag('min_scale_factor', 'float', 0.5, 'Smallest random factor on the size of an image.'),
        Flag('max_scale_factor', 'float', 2.0, 'Largest random factor on the size of an image.'),
        Flag(
            'scale_factor_step_size',
            'float',
            0.25,
            'About how far apart the possible factors are; 0: any factor in the range.',
        ),
        Flag(
            'jitter_brightness',
            'float',
            0.0,
            'Change how bright images are: by a random factor from 1 minus this to 1 plus this, such as 0.2. 0: off, '
            'here and below; deeplab preview draws what they do.',
        ),
        Flag('jitter_contrast', 'float', 0.0, 'Change the contrast of images, likewise.'),
        Flag('jitter_saturation', 'float', 0.0, 'Change how strong their colours are, likewise.'),
        Flag('jitter_hue', 'float', 0.0, 'Turn colours by up to this share of the colour circle, such as 0.02.'),
        Flag(
            'rotation_degrees',
            'float',
            0.0,
            'Turn images by up to this angle, either way. What comes into view from outside does not count.',
        ),
        Flag('blur_sigma', 'float', 0.0, 'Blur images with a Gaussian of up to this standard deviation in pixels.'),
        Flag('blur_probability', 'float', 0.5, 'Share of the images that --blur_sigma blurs.'),
        Flag('cutout_size', 'integer', 0, 'Hide squares of this many pixels a side; they do not count in the loss.'),
        Flag('cutout_count', 'integer', 1, 'How many squares --cutout_size hides.'),
        Flag(
            'rare_class_sampling',
            'float',
            0.0,
            'Share of the crops that are placed where a class is, the rarer in the split the more often, such as 0.5.',
        ),
    ),
)
NUM_WORKERS = Flag('num_workers', 'integer', None, 'Threads that read and check files; not set: one a core.')
_BUILDER = Group(
    'Records',
    (
        Flag('num_shards', 'integer', None, "Files that each split becomes; not set: the data set's usual number."),
        NUM_WORKERS,
        Flag('num_classes', 'integer', None, 'Refuse masks with ids beyond this many classes; not set: not checked.'),
        Flag('ignore_label', 'integer', 255, 'The id of pixels that do not count; always allowed in masks.'),
        SEED,
    ),
)


def builder_groups(*paths: Flag) -> tuple[Group, ...]:
    """The groups of a builder that reads and writes at `paths`."""
    formats = (
        Flag(
            'image_format',
            'enum',
            'png',
            'Extension of the image files; npy is for arrays [height, width, channels] of uint8 or uint16.',
            options.IMAGE_FORMATS,
        ),
        Flag('label_format', 'enum', 'png', 'Extension of the mask files.', options.LABEL_FORMATS),
    )
    return Group('Files', (*paths, *formats)), _BUILDER, LOG
