"""Options of `deeplab rank`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from deeplab.options.fields import Options, PathText, declared
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
        meaning='Images without labels: an image, a folder, a pattern such as photos/**/*.jpg in quotes, or a list '
        '(.txt, one path a line); {inputs}= may be omitted.',
        kind='repeated string',
    )
    checkpoint_dir: tuple[PathText, ...] = declared(
        (),
        'A checkpoint, or a folder, whose newest checkpoint is used, such as the {TrainOptions.train_logdir} of a '
        'training. Given several times, or as the folder of a cross-validation, their disagreement counts, too.',
        kind='repeated string',
    )
    output_dir: PathText = declared(
        'ranking', 'Folder for ranking.txt, ranking.csv, ranking.json and ranking.html. A stopped run continues there.'
    )
    labeled: tuple[PathText, ...] = declared(
        (),
        'Images that have labels already, as {inputs}: images that look like them come later.',
        kind='repeated string',
    )
    target: tuple[PathText, ...] = declared(
        (),
        'Unlabeled images from the conditions in which the network will be used, as {inputs}: images that resemble the '
        'most uncertain of these come first. Not set: images that resemble the most uncertain of {inputs}.',
        kind='repeated string',
    )
    first: int = declared(
        100,
        'Number of images to choose for labeling: they differ from each other, and are in ranking.txt and on the page.',
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
        'Weight of a pixel: its class has (1 / share of the class in all images) to this power. 0: all classes count '
        'alike in each pixel; 1: rare classes count most.',
        range='[0, 1]',
    )
    view_scales: tuple[float, ...] = declared(
        (0.75,),
        'Scales in which each image is predicted in addition to its own size, for the uncertainty.',
        range='(0, 4]',
    )
    view_flipped: bool = declared(True, 'Predict each image also mirrored, for the uncertainty.')
    predictor: PredictorOptions = PredictorOptions()
    network: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    part: PartOptions = PartOptions()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(bool(self.checkpoint_dir), 'checkpoint_dir', 'give at least one checkpoint, or its folder')
