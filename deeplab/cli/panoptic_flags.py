"""Flags of the evaluation in the COCO panoptic format."""

from __future__ import annotations

from deeplab import options
from deeplab.cli.links import linked
from deeplab.cli.words import Flag, Group

COCO_FILES = Group(
    'Files',
    tuple(
        linked(name, f'CocoFormatOptions.{name}', meaning, is_path=True)
        for name, meaning in (
            ('gt_json_file', 'JSON file of the ground truth, in the COCO panoptic format.'),
            ('gt_folder', 'Folder of the PNG files of the ground truth.'),
            ('pred_json_file', 'JSON file of the predictions, in the same format.'),
            ('pred_folder', 'Folder of the PNG files of the predictions.'),
            ('results_json_file', 'JSON file to write: all figures, with those of each category. Not set: none.'),
        )
    ),
)
COCO_METRIC = Group(
    'Metric',
    (
        linked(
            'metric',
            'CocoFormatOptions.metric',
            'pq: panoptic quality, with segmentation and recognition quality; pc: parsing covering.',
            choices=options.PANOPTIC_METRICS,
        ),
        linked('num_categories', 'CocoFormatOptions.num_categories', 'Category ids are less than this.'),
        linked(
            'ignored_label',
            'CocoFormatOptions.ignored_label',
            'Category that is not evaluated: its segments are treated as pixels without a segment.',
        ),
        linked(
            'max_instances_per_category',
            'CocoFormatOptions.max_instances_per_category',
            'Largest number of segments of one category in an image.',
        ),
        Flag(
            'intersection_offset',
            'integer',
            None,
            'Accepted for compatibility with old command lines; it has no effect. Not set: the same.',
        ),
        linked(
            'normalize_by_image_size',
            'CocoFormatOptions.normalize_by_image_size',
            'For parsing covering: weight a segment by its share of the image; false: by its pixels.',
        ),
    ),
)
COCO_OUTPUT = Group(
    'Processes and output',
    (
        linked(
            'num_workers',
            'CocoFormatOptions.num_workers',
            'Number of processes that read and compare images; 0: only this one, -1: one per core.',
        ),
        linked(
            'print_digits',
            'CocoFormatOptions.print_digits',
            'Digits after the point of the shares that are printed in percent: 3 prints 67.4.',
        ),
    ),
)
