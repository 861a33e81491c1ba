"""Options of `deeplab doctor`."""

from __future__ import annotations

import dataclasses

from deeplab.files import storage
from deeplab.options.rules import require, require_classes, require_positive
from deeplab.wording import option


@dataclasses.dataclass(frozen=True)
class DoctorOptions:
    """Options of `deeplab doctor`.

    Attributes:
      data: folder of records, or of images and masks.
      dataset: the data set, as for training; None if it has no description yet.
      num_classes: number of classes; None for that of the data set, or else the largest id plus 1.
      ignore_label: id of the pixels that are excluded; None for that of the data set, or else 255.
      train_split: the split to train on.
      eval_split: the split to evaluate on.
      image_folder: folder of the images; None to find it in `data`.
      mask_folder: folder of the masks; None to find it in `data`.
      mask_suffix: what the name of each mask has in addition to that of its image, such as '_mask'.
      list_folder: folder with a list of names for each split; None to find it in `data`.
      output_stride: of the network.
      output: JSON file of the findings.
      html: HTML file of the findings with pictures; None for none.
      fix: new folder for a repaired copy; None for none.
      colors: color table of masks in color, for the findings and the repaired copy; None for the palette of `dataset`.
      ignore_other_ids: whether the copy gives the ignore label to ids that are not classes.
    """

    data: str
    dataset: str | None = None
    num_classes: int | None = None
    ignore_label: int | None = None
    train_split: str = 'train'
    eval_split: str = 'val'
    image_folder: str | None = None
    mask_folder: str | None = None
    mask_suffix: str = ''
    list_folder: str | None = None
    output_stride: int = 16
    output: str = 'deeplab_doctor.json'
    html: str | None = None
    fix: str | None = None
    colors: str | None = None
    ignore_other_ids: bool = False

    def __post_init__(self) -> None:
        for name in ('image_folder', 'mask_folder', 'list_folder', 'output', 'html', 'fix', 'colors'):
            value = getattr(self, name)
            rule = f'it must be on a local disk; only records ({option("DoctorOptions.data")}) may be elsewhere'
            require(value is None or not storage.is_remote(value), f'DoctorOptions.{name}', value, rule)
        if self.num_classes is not None:
            require_classes(option('DoctorOptions.num_classes', self.num_classes), self.num_classes)
        is_id = self.ignore_label is None or 0 <= self.ignore_label <= 255
        require(is_id, 'DoctorOptions.ignore_label', self.ignore_label, 'it must be from 0 to 255')
        needed = f'it needs {option("DoctorOptions.fix")}'
        require(not self.ignore_other_ids or self.fix is not None, 'DoctorOptions.ignore_other_ids', True, needed)
        knows = self.dataset is not None or self.num_classes is not None
        needed = f'it needs {option("DoctorOptions.num_classes")} or {option("DoctorOptions.dataset")}'
        require(not self.ignore_other_ids or knows, 'DoctorOptions.ignore_other_ids', True, needed)
        require_positive('DoctorOptions.output_stride', self.output_stride)
