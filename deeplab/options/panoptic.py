"""Options of the evaluation in the COCO panoptic format."""

from __future__ import annotations

import dataclasses

from deeplab.options.rules import require, require_choice, require_not_negative, require_positive

PANOPTIC_METRICS = ('pq', 'pc')


@dataclasses.dataclass(frozen=True)
class CocoFormatOptions:
    """Options of `deeplab eval_coco_format`.

    Attributes:
      gt_json_file: JSON file of the ground truth.
      gt_folder: folder of its PNG files.
      pred_json_file: JSON file of the predictions.
      pred_folder: folder of their PNG files.
      metric: pq for panoptic quality, pc for parsing covering.
      num_categories: category ids are less than this.
      ignored_label: category whose segments are treated as pixels without a segment.
      max_instances_per_category: largest number of segments of one category in an image.
      normalize_by_image_size: whether parsing covering weights a segment by its share of the image instead of its
        pixels.
      num_workers: number of processes; 0 for this one alone, -1 for one per core.
      print_digits: number of digits after the point to which shares are rounded; they are printed in percent.
      results_json_file: file to write all results to; None for none.
    """

    gt_json_file: str
    gt_folder: str
    pred_json_file: str
    pred_folder: str
    metric: str = 'pq'
    num_categories: int = 201
    ignored_label: int = 0
    max_instances_per_category: int = 256
    normalize_by_image_size: bool = True
    num_workers: int = 0
    print_digits: int = 3
    results_json_file: str | None = None

    def __post_init__(self) -> None:
        require_choice('CocoFormatOptions.metric', self.metric, PANOPTIC_METRICS)
        require_positive('CocoFormatOptions.num_categories', self.num_categories)
        require_positive('CocoFormatOptions.max_instances_per_category', self.max_instances_per_category)
        require_not_negative('CocoFormatOptions.print_digits', self.print_digits)
        field = 'CocoFormatOptions.num_workers'
        require(self.num_workers >= -1, field, self.num_workers, 'it must be -1 (one process per core), 0 or more')
