"""Comparison of a checkpoint with its published mean IoU (`deeplab verify`)."""

from __future__ import annotations

if __name__ == '__main__':  # `python -m deeplab.verify`; first, so that help does not wait for TensorFlow
    from deeplab import start

    start.run_program('verify')

import dataclasses
import json
import os

from deeplab import names
from deeplab.core import checkpoints
from deeplab.evaluation import verification
from deeplab.evaluation.verification import Finding, Verified
from deeplab.files import folder_lock, output_files
from deeplab.inference.network import memory_size
from deeplab.options import VerifyCase, VerifyOptions
from deeplab.system import memory
from deeplab.wording import option
from deeplab.zoo import fetching

_FIELD = 'VerifyOptions.verify_logdir'
_MOST_FINDINGS = 5  # in the report; the file has all


@dataclasses.dataclass(frozen=True)
class VerifyResult:
    """Result of `deeplab verify`.

    Attributes:
      verified: one for each published evaluation.
      report: a table, and what is most probably different.
      status: exit status: 0 if all figures are reproduced, otherwise 1.
    """

    verified: tuple[Verified, ...]
    report: str
    status: int


def run(options: VerifyOptions) -> VerifyResult:
    """Evaluates a checkpoint with published settings, and compares the mean IoU.

    Raises:
      UserError: Data set, network or checkpoint are missing or do not match, or the checkpoint cannot be downloaded.
    """
    case = options.cases[0]
    size = memory_size('verify', case.model, options.batch_size)
    with folder_lock.held(options.verify_logdir, 'verify', _FIELD), memory.explained('verify', size=size):
        checkpoint = _checkpoint(options)
        verified = tuple(verification.verify(checkpoint, case, options) for case in options.cases)
        report = _report(verified, options)
        path = os.path.join(options.verify_logdir, f'verify-{options.preset or "checkpoint"}.json')
        output_files.write(path, _FIELD, json.dumps(_as_json(verified, options), indent=1), report)
    report = f'{report}\nAll figures: {path}'
    is_reproduced = all(each.is_reproduced for each in verified)
    return VerifyResult(verified, f'{report}\n{_conclusion(verified, options)}', 0 if is_reproduced else 1)


def _checkpoint(options: VerifyOptions) -> str:
    """Returns the path of the checkpoint, which is downloaded if none is given."""
    path = options.checkpoint_dir
    if path is None:
        return fetching.fetch(options.preset or '', options.fetch)
    return checkpoints.find_checkpoint(path)


def _settings(case: VerifyCase) -> str:
    return f'output stride {case.model.output_stride}, {verification.described(case.prediction)}'


def _report(verified: tuple[Verified, ...], options: VerifyOptions) -> str:
    """Returns the other settings that were tried, and a table."""
    lines = []
    for each in verified:
        if each.findings:
            lines.append(f'What {_settings(each.case)} would give with another setting:')
            lines += [f'  {_shown(finding)}' for finding in each.findings[:_MOST_FINDINGS]]
            lines.append('')
    rows = [('mIoU in percent', 'published', 'measured', 'difference', '')]
    for each in verified:
        published, outcome = each.case.miou, 'reproduced' if each.is_reproduced else 'NOT reproduced'
        figures = (f'{published:.2f}', f'{each.miou:.2f}', f'{each.miou - published:+.3f}')
        rows.append((_settings(each.case), *figures, outcome))
    lines += names.aligned(rows, left=(0, 4))
    evaluated = verified[0].round
    lines.append(
        f'{evaluated.images} images of {options.dataset.split} ({options.dataset.name}), checkpoint '
        f'{evaluated.checkpoint}'
    )
    return '\n'.join(lines)


def _shown(finding: Finding) -> str:
    if finding.miou is None:
        return finding.setting
    return f'{"about " if finding.is_estimate else ""}{finding.miou:.2f} %: {finding.setting}'


def _conclusion(verified: tuple[Verified, ...], options: VerifyOptions) -> str:
    """Returns whether the figures are reproduced, and otherwise what is most probably different."""
    points = f'{options.tolerance:g} percentage points'
    first = next((each for each in verified if not each.is_reproduced), None)
    if first is None:
        return f'Reproduced: the mean IoU differs by at most {points}.'
    text = f'Not reproduced: the mean IoU differs by more than {points}.'
    if first.findings and verification.explains(first.findings[0], first.case.miou, first.miou):
        return f'{text} Most probable reason: {_shown(first.findings[0])}.'
    if first.findings:
        return f'{text} None of the settings that were tried is the reason: compare checkpoint, records and masks.'
    return f'{text} {option("VerifyOptions.diagnosis_images")} greater than 0 tries other settings.'


def _as_json(verified: tuple[Verified, ...], options: VerifyOptions) -> dict[str, object]:
    return {
        'reproduced': all(each.is_reproduced for each in verified),
        'tolerance': options.tolerance,
        'preset': options.preset,
        'dataset': options.dataset.name,
        'split': options.dataset.split,
        'evaluations': [
            {
                'settings': _settings(each.case),
                'output_stride': each.case.model.output_stride,
                'scales': each.case.prediction.scales,
                'flips': each.case.prediction.add_flipped_images,
                'crop_size': each.case.model.crop_size,
                'published_miou': each.case.miou,
                'miou': each.miou,
                'reproduced': each.is_reproduced,
                'class_iou': each.round.metrics.class_iou,
                'checkpoint': each.round.checkpoint,
                'images': each.round.images,
                'seconds': round(each.round.seconds, 3),
                'findings': [dataclasses.asdict(finding) for finding in each.findings],
            }
            for each in verified
        ],
    }
