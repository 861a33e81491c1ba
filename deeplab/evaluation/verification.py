"""Evaluation with published settings; if the mean IoU differs, a search for the setting that is most probably another.

The search compares with what would be measured if one setting were another: from the confusion matrix, where that
suffices, otherwise by evaluating some images twice, with the published settings and with the other ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from absl import logging

from deeplab.core import moving_average
from deeplab.core.metrics import ConfusionMatrix
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.segmentation_dataset import DataSource
from deeplab.errors import UserError
from deeplab.evaluation import evaluation_rounds, runner
from deeplab.inference.network import InferenceNetwork
from deeplab.inference.opening import Weights
from deeplab.inference.run_weights import WeightsChoice
from deeplab.options import ModelOptions, PredictionOptions, ResizeOptions, VerifyCase, VerifyOptions
from deeplab.wording import option

_USUAL_SCALES = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75)  # of most published evaluations with several scales
_STRIDES = {8: 16, 16: 8}


@dataclasses.dataclass(frozen=True)
class Finding:
    """What another setting would give.

    Attributes:
      setting: the setting, for the user.
      miou: the mean IoU with it, in percent; None where it is unknown.
      is_estimate: whether it was measured on a part of the images.
    """

    setting: str
    miou: float | None = None
    is_estimate: bool = False


@dataclasses.dataclass(frozen=True)
class Verified:
    """A published evaluation, repeated.

    Attributes:
      case: the published one.
      round: the measured figures.
      miou: measured mean IoU, in percent.
      is_reproduced: whether the difference is within the tolerance.
      findings: what may be the reason if it is not, the most probable first.
    """

    case: VerifyCase
    round: evaluation_rounds.Round
    miou: float
    is_reproduced: bool
    findings: tuple[Finding, ...] = ()


def verify(checkpoint: str, case: VerifyCase, options: VerifyOptions) -> Verified:
    """Repeats a published evaluation.

    Args:
      checkpoint: path of the checkpoint.
      case: the published evaluation.
      options: the split, the tolerance, and how to search for the reason of a difference.

    Raises:
      UserError: Data set, network or checkpoint are missing or do not match.
    """
    split = _open(case, options)
    case = dataclasses.replace(case, model=dataclasses.replace(case.model, crop_size=split.crop_size))
    averages = WeightsChoice(None, 'EvalOptions.use_moving_average').takes_averages(checkpoint)
    weights = Weights(checkpoint, averages)
    evaluation = _evaluate(weights, case, split, options)
    miou = _percent(evaluation)
    if abs(miou - case.miou) <= options.tolerance:
        return Verified(case, evaluation, miou, True)
    other_ids = from_matrix(evaluation.metrics.confusion_matrix, split.descriptor)
    findings = [*_from_records(split, options), *(each for each in other_ids if explains(each, case.miou, miou))]
    findings += _tried(weights, case, split, miou, options)
    return Verified(case, evaluation, miou, False, tuple(ranked(findings, case.miou)))


def ranked(findings: Sequence[Finding], published: float) -> list[Finding]:
    """Returns findings in the order of probability.

    What is wrong with the records comes first, then the settings, the closest to the published figure first.
    """
    return sorted(findings, key=lambda each: -1.0 if each.miou is None else abs(each.miou - published))


def explains(finding: Finding, published: float, measured: float) -> bool:
    """Returns whether a finding may be the reason why `measured` differs from `published`."""
    return finding.miou is None or abs(finding.miou - published) < abs(measured - published) / 2


# --- What needs no further evaluation --------------------------------------------------------------------------------


def _from_records(split: runner.Split, options: VerifyOptions) -> Iterator[Finding]:
    """Yields what differs between the records and the split that was published."""
    expected = split.descriptor.splits.get(options.dataset.split)
    if expected and expected != split.num_images:
        yield Finding(f'the records have {split.num_images} images, but {options.dataset.split} has {expected}')
    ignored = split.descriptor.ignore_label
    if not split.check_result.ignored_pixels and ignored >= split.descriptor.num_classes:
        yield Finding(f'no pixel of the masks has the ignore label {ignored}; were these pixels given a class?')


def from_matrix(matrix: Sequence[Sequence[int]], descriptor: DatasetDescriptor) -> list[Finding]:
    """Returns what the mean IoU would be with other class ids, or as another mean.

    Args:
      matrix: numbers of pixels [label][prediction].
      descriptor: descriptor of the data set.
    """
    counts = np.asarray(matrix, np.int64)
    ious = ConfusionMatrix.of_counts(counts).result().class_iou
    figures = [0.0 if iou is None else iou for iou in ious]
    findings = []
    if None in ious:
        findings.append(Finding('classes that do not occur count as 0 in the mean', 100 * float(np.mean(figures))))
    if len(figures) > 1:
        name = descriptor.class_name(0)
        rest = [iou for iou in ious[1:] if iou is not None]
        if rest:
            findings.append(Finding(f"class 0 ('{name}') is not part of the mean", 100 * float(np.mean(rest))))
        for shift, direction in ((1, 'greater'), (-1, 'less')):
            text = f'the class ids of the masks are {direction} by 1 than the ids of the network'
            findings.append(Finding(text, _miou(np.roll(counts, shift, axis=1))))
    order = counts.argmax(axis=0)  # the label that is most frequent under each prediction
    if sorted(order) == list(range(len(figures))) and list(order) != list(range(len(figures))):
        text = f'the masks have the classes in another order than the network (its classes are {order.tolist()} there)'
        permuted = np.empty_like(counts)
        permuted[:, order] = counts
        findings.append(Finding(text, _miou(permuted)))
    return [finding for finding in findings if finding.miou is not None]


def _miou(counts: np.ndarray) -> float | None:
    miou = ConfusionMatrix.of_counts(counts).result().miou
    return None if miou is None else 100 * miou


# --- Other settings, tried on some images ----------------------------------------------------------------------------


def _tried(
    weights: Weights, case: VerifyCase, split: runner.Split, miou: float, options: VerifyOptions
) -> Iterator[Finding]:
    """Yields what each of the other settings would give, estimated on some images.

    The estimate is the measured mean IoU plus the difference that the setting makes on these images.
    """
    if not options.diagnosis_images:
        return
    trials = list(_trials(case, split, weights, options))
    part = _part(split, options.diagnosis_images)
    is_estimate = part.num_images < split.num_images
    logging.info('Trying %d other settings on %d images.', len(trials), part.num_images)
    base = _percent(_evaluate(weights, case, part, options)) if is_estimate else miou
    for text, other_case, other_weights in trials:
        try:
            other = _part(_open(other_case, options), options.diagnosis_images)
            tried = _percent(_evaluate(other_weights, other_case, other, options))
        except UserError as error:
            logging.info('Not tried: %s (%s)', text, error)
            continue
        logging.info('%s: mIoU %.2f %% instead of %.2f %% on these images.', text, tried, base)
        yield Finding(text, miou + tried - base, is_estimate)


def _trials(
    case: VerifyCase, split: runner.Split, weights: Weights, options: VerifyOptions
) -> Iterator[tuple[str, VerifyCase, Weights]]:
    """Yields settings, each of which differs from the published ones in one thing, which the text names."""
    if case.as_published is not None:
        yield f'without {" ".join(case.overrides)}', case.as_published, weights
    if moving_average.held_by(weights.checkpoint):
        text = option('EvalOptions.use_moving_average', not weights.use_moving_average)
        others = 'the weights themselves' if weights.use_moving_average else 'the moving averages of the weights'
        yield f'{others} ({text})', case, Weights(weights.checkpoint, not weights.use_moving_average)
    predictions = [*options.other_predictions, PredictionOptions(), PredictionOptions(_USUAL_SCALES, True)]
    if not case.prediction.is_single_scale:
        flips = not case.prediction.add_flipped_images
        predictions.append(dataclasses.replace(case.prediction, add_flipped_images=flips))
    for prediction in dict.fromkeys(each for each in predictions if each != case.prediction):
        yield described(prediction), dataclasses.replace(case, prediction=prediction), weights
    for text, model in _networks(case.model):
        yield text, dataclasses.replace(case, model=model), weights
    smallest = dataclasses.replace(case, model=dataclasses.replace(case.model, crop_size=None))
    fitting = _open(smallest, options).crop_size
    if fitting != split.crop_size:
        model = dataclasses.replace(case.model, crop_size=fitting)
        yield option('ModelOptions.crop_size', fitting), dataclasses.replace(case, model=model), weights
    if case.resize != ResizeOptions():
        text = f'without {option("ResizeOptions.min_value")} and {option("ResizeOptions.max_value")}'
        yield text, dataclasses.replace(smallest, resize=ResizeOptions()), weights


def described(prediction: PredictionOptions) -> str:
    """Returns scales and flips as text."""
    scales = ', '.join(f'{scale:g}' for scale in prediction.scales)
    return f'scales {scales}' + (', flips' if prediction.add_flipped_images else '')


def _networks(model: ModelOptions) -> Iterator[tuple[str, ModelOptions]]:
    """Yields networks with another output stride or atrous rates, which no variable of a checkpoint shows."""
    if model.output_stride not in _STRIDES:
        return
    stride, rates = _STRIDES[model.output_stride], model.aspp.rates or ()
    scaled = tuple(max(1, int(rate * model.output_stride / stride)) for rate in rates)
    aspp = dataclasses.replace(model.aspp, rates=scaled)
    text, rates_text = option('ModelOptions.output_stride', stride), option('AsppOptions.rates', scaled)
    yield f'{text} {rates_text}' if rates else text, dataclasses.replace(model, output_stride=stride, aspp=aspp)
    if rates:
        yield rates_text, dataclasses.replace(model, aspp=aspp)


def _open(case: VerifyCase, options: VerifyOptions) -> runner.Split:
    data = DataSource(options.dataset).split()
    return runner.open_fitting_split(data, case.model, case.resize, options.fits_crop_size, options.verify_logdir)


def _part(split: runner.Split, images: int) -> runner.Split:
    """Returns the split with at most `images` images, evenly spread."""
    count = min(images, split.num_images)
    chosen = np.linspace(0, split.num_images - 1, count).astype(int)
    return split.selected(chosen)


def _evaluate(
    weights: Weights, case: VerifyCase, split: runner.Split, options: VerifyOptions
) -> evaluation_rounds.Round:
    model = dataclasses.replace(case.model, crop_size=split.crop_size)
    network = InferenceNetwork(model, case.prediction, options.batch_size)
    network.check_memory('verify')
    task = runner.Task(network, split, case.resize, use_moving_average=weights.use_moving_average)
    return evaluation_rounds.evaluate(weights.checkpoint, task)


def _percent(evaluation: evaluation_rounds.Round) -> float:
    """Returns the mean IoU in percent; 0 where no pixel is labeled."""
    return 100 * (evaluation.metrics.miou or 0.0)
