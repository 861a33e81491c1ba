"""Options of the evaluation in the COCO panoptic format."""

from __future__ import annotations

import dataclasses

from deeplab.options.fields import Options, PathText, declared


@dataclasses.dataclass(frozen=True)
class CocoFormatOptions(Options):
    """Options of `deeplab eval_coco_format`."""

    gt_json_file: PathText = declared(meaning='JSON file of the ground truth, in the COCO panoptic format.')
    gt_folder: PathText = declared(meaning='Folder of the PNG files of the ground truth.')
    pred_json_file: PathText = declared(meaning='JSON file of the predictions, in the same format.')
    pred_folder: PathText = declared(meaning='Folder of the PNG files of the predictions.')
    metric: str = declared(
        'pq',
        'pq: panoptic quality, with segmentation and recognition quality; pc: parsing covering.',
        choices=('pq', 'pc'),
    )
    num_categories: int = declared(201, 'Category ids are less than this.', range='(0, inf)')
    ignored_label: int = declared(
        0,
        'Category that is not evaluated: its segments are treated as pixels without a segment.',
    )
    max_instances_per_category: int = declared(
        256,
        'Largest number of segments of one category in an image.',
        range='(0, inf)',
    )
    normalize_by_image_size: bool = declared(
        True,
        'For parsing covering: weight a segment by its share of the image; false: by its pixels.',
    )
    num_workers: int = declared(
        0,
        'Number of processes that read and compare images; 0: only this one, -1: one per core.',
    )
    print_digits: int = declared(
        3,
        'Digits after the point of the shares that are printed in percent: 3 prints 67.4.',
        range='[0, inf)',
    )
    results_json_file: PathText | None = declared(
        None, 'JSON file to write: all figures, also of each category. Not set: none.'
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(self.num_workers >= -1, 'num_workers', 'it must be -1 (one process per core), 0 or more')
