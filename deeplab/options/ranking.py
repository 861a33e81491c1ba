"""Options of `deeplab rank`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from deeplab.options.fields import LocalPath, Options, PathText, declared
from deeplab.options.parts import PartOptions
from deeplab.options.prediction import PredictorOptions

MEASURES = ('entropy', 'margin', 'spread')


@dataclasses.dataclass(frozen=True)
class RankOptions(Options):
    """Options of `deeplab rank`.

    Attributes:
      network: options of the network that take precedence over the source, by 'Class.field'.
    """

    inputs: tuple[PathText, ...] = declared(
        meaning='Unlabeled images: an image, a folder, a pattern such as photos/**/*.jpg in quotes, or a list (.txt, '
        'one path per line); {inputs}= may be omitted.',
        kind='repeated string',
    )
    checkpoint_dir: tuple[LocalPath, ...] = declared(
        (),
        'A checkpoint, or a folder, whose newest checkpoint is used, such as the {TrainOptions.train_logdir} of a '
        'training run. If it is repeated, or the folder of a cross-validation, the disagreement of the networks is '
        'also taken into account.',
        kind='repeated string',
    )
    output_dir: LocalPath = declared(
        'ranking',
        'Folder for ranking.txt, ranking.csv, ranking.json and ranking.html. An interrupted run resumes there.',
    )
    labeled: tuple[PathText, ...] = declared(
        (),
        'Images that are already labeled, given as for {inputs}: similar images are ranked lower.',
        kind='repeated string',
    )
    target: tuple[PathText, ...] = declared(
        (),
        'Unlabeled images from the conditions in which the network will be used, given as for {inputs}: images that '
        'resemble the most uncertain of these come first. Not set: images that resemble the most uncertain of '
        '{inputs}.',
        kind='repeated string',
    )
    first: int = declared(
        100,
        'Number of images to select for labeling: they differ from each other, and are listed in ranking.txt and '
        'ranking.html.',
        range='(0, inf)',
    )
    measure: str = declared(
        'entropy',
        'Uncertainty of a pixel: entropy of the mean prediction, small margin between its two most probable classes, '
        'or spread of the predictions over scales, flips and checkpoints (mutual information).',
        choices=MEASURES,
    )
    class_balance: float = declared(
        0.5,
        'Exponent of the class weights: (1 / fraction of the class in all images) to this power. 0: all classes weigh '
        'the same; 1: rare classes weigh most.',
        range='[0, 1]',
    )
    view_scales: tuple[float, ...] = declared(
        (0.75,),
        'Scales at which each image is predicted, in addition to its own size, to measure the uncertainty.',
        range='(0, 4]',
    )
    view_flipped: bool = declared(True, 'Also predict each image mirrored, to measure the uncertainty.')
    predictor: PredictorOptions = PredictorOptions()
    network: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    part: PartOptions = PartOptions()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(bool(self.checkpoint_dir), 'checkpoint_dir', 'pass at least one checkpoint, or its folder')
