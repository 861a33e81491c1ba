"""Options of `deeplab doctor`."""

from __future__ import annotations

import dataclasses

from deeplab.options.fields import LocalPath, Options, PathText, declared
from deeplab.options.parts import PartOptions
from deeplab.options.rules import require_classes
from deeplab.wording import option


@dataclasses.dataclass(frozen=True)
class DoctorOptions(Options):
    """Options of `deeplab doctor`."""

    data: PathText = declared(
        meaning='Folder of TFRecord shards; or a folder with a folder of images, a folder of masks (such as images '
        'and masks, or JPEGImages and SegmentationClass) and lists of names; or a description of such folders; '
        '{data}= may be omitted.'
    )
    dataset: PathText | None = declared(
        None,
        'The data set, as for train: its classes, their names and its ignore label. Not set: the description beside '
        'the data; without one, the ids in the masks are used as the classes.',
    )
    num_classes: int | None = declared(None, 'Number of classes; overrides the data set.')
    ignore_label: int | None = declared(
        None,
        'Id of the pixels that are excluded from loss and metrics. Not set: as in the data set, or 255.',
        range='[0, 255]',
    )
    train_split: str = declared('train', 'The split to train on.')
    eval_split: str = declared('val', 'The split to evaluate on.')
    image_folder: LocalPath | None = declared(None, 'Folder of the images, if it has a different name.')
    mask_folder: LocalPath | None = declared(None, 'Folder of the masks, if it has a different name.')
    mask_suffix: str = declared(
        '',
        'Suffix of the names of masks, such as _mask for 01.jpg and 01_mask.png, as for build_folder_data.',
    )
    list_folder: LocalPath | None = declared(
        None,
        'Folder with a file SPLIT.txt for each split. Not set: ImageSets/Segmentation, ImageSets, lists, splits or '
        'the folder itself.',
    )
    output_stride: int = declared(
        16,
        'Output stride of the network. Classes that consist mostly of parts narrower than this are reported.',
        range='(0, inf)',
    )
    minutes: float | None = declared(
        None,
        "Time limit, in minutes, for training on this machine's processor: the suggested numbers of steps are "
        'estimated to fit into it. Not set: 100 passes over the images.',
        range='(0, inf)',
    )
    checkpoint_dir: LocalPath | None = declared(
        None,
        'Checkpoint of an image classifier, or its folder, for records of image classification: lists the images '
        'whose class it contradicts, most confident first. Needs TensorFlow.',
    )
    folds: LocalPath | None = declared(
        None,
        'Folder of a cross-validation on the same records (deeplab cross_validate): lists the masks that are '
        'contradicted by the networks trained without them, likeliest errors first. Needs TensorFlow.',
    )
    output: LocalPath = declared('deeplab_doctor.json', 'JSON file for the findings, or its folder.')
    html: LocalPath | None = declared(
        None,
        'HTML file for the findings, or its folder, with the classes and pictures of the worst cases. Not set: no '
        'HTML file.',
    )
    fix: LocalPath | None = declared(
        None,
        'New folder for a repaired copy of the data set, as images, masks and lists of its splits. Only faults with a '
        'single right answer are repaired; other faulty images are left out and listed. The data set itself is never '
        'changed.',
    )
    colors: LocalPath | None = declared(
        None,
        'Color table for color-coded masks, as for build_folder_data: the findings list the colors that it lacks, and '
        '{fix} converts the masks. Not set: the palette of {dataset}, if given.',
    )
    ignore_other_ids: bool = declared(
        False,
        'In the copy, replace ids that are neither a class nor the ignore label with the ignore label.',
        needs=('fix',),
    )
    part: PartOptions = PartOptions()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ('fix', 'checkpoint_dir', 'folds'):
            rule = f'it needs all images in one run; omit it, or {option("PartOptions.part")}'
            self._require(self.part.part is None or getattr(self, name) is None, name, rule)
        if self.num_classes is not None:
            require_classes(option('DoctorOptions.num_classes', self.num_classes), self.num_classes)
