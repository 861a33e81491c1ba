"""Options of training with images without labels."""

from __future__ import annotations

import dataclasses

from deeplab.options.data import AugmentOptions
from deeplab.options.fields import Options, PathText, declared
from deeplab.registry.augmentations import AUGMENTATIONS, keep_points
from deeplab.wording import did_you_mean


@dataclasses.dataclass(frozen=True)
class UnlabeledOptions(Options):
    """Unlabeled images: the moving average of the network (the teacher) predicts their labels during training."""

    directory: PathText | None = declared(
        None,
        'Folder of unlabeled image files (JPEG, PNG, .npy), including its subfolders. The moving average of the '
        'network labels them during training (mean teacher). Not set: only labeled images.',
        flag='unlabeled_dir',
    )
    batch_size: int | None = declared(
        None,
        'Unlabeled images per step, over all clones. Not set: as many as {TrainOptions.batch_size}.',
        flag='unlabeled_batch_size',
        range='(0, inf)',
        needs=('directory',),
    )
    weight: float = declared(
        1.0,
        'Weight of the loss of unlabeled images, after {ramp_steps}.',
        flag='unlabeled_weight',
        range='(0, inf)',
        needs=('directory',),
    )
    confidence: float = declared(
        0.9,
        'Confidence threshold of pseudo labels: a pixel counts if the probability of its predicted class is at least '
        'this.',
        flag='unlabeled_confidence',
        range='[0, 1)',
        needs=('directory',),
    )
    ramp_steps: int | None = declared(
        None,
        'Number of steps over which {weight} rises from nearly 0. Not set: a quarter of '
        '{TrainOptions.number_of_steps}.',
        flag='unlabeled_ramp_steps',
        range='[0, inf)',
        needs=('directory',),
    )
    augmentations: str = declared(
        'colors,gamma,blur,cutout',
        'Augmentations that the trained network sees, but not the teacher: each image gets two of these, in random '
        'order. They must not move pixels.',
        flag='unlabeled_augmentations',
        needs=('directory',),
    )
    magnitude: float = declared(
        1.0,
        'Strength of {augmentations}, as a fraction of the strongest values.',
        flag='unlabeled_magnitude',
        range='(0, 1]',
        needs=('directory',),
    )
    cutmix_probability: float = declared(
        0.5,
        'Fraction of the unlabeled images in which a box shows another one, with its pseudo labels (CutMix).',
        flag='unlabeled_cutmix_probability',
        range='[0, 1]',
        needs=('directory',),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        allowed = [
            record.name for record in AUGMENTATIONS.records() if record.strongest and record.move_points is keep_points
        ]
        names = [name.strip() for name in self.augmentations.split(',')]
        for name in names if self.is_on else ():
            rule = f"'{name}' is not one that leaves every pixel in its place. {did_you_mean(name, allowed)}Allowed: "
            self._require(name in allowed, 'augmentations', rule + ', '.join(allowed))
            self._require(names.count(name) == 1, 'augmentations', f"'{name}' appears twice")

    @property
    def strong(self) -> AugmentOptions:
        """The changes of the image that the trained network sees."""
        values = {'random_augmentations': self.augmentations, 'random_augmentations_magnitude': self.magnitude}
        return AugmentOptions(settings=values)

    @property
    def is_on(self) -> bool:
        """Whether there are images without labels."""
        return self.directory is not None
