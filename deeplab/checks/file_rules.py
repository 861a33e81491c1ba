"""Rules about single files: what cannot be read, and kinds, sizes and orientations of images and masks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deeplab.checks import sources
from deeplab.checks.data_rules import RULES
from deeplab.checks.facts import Case
from deeplab.checks.findings import Data, Finding, build_again
from deeplab.checks.rule import NOTE
from deeplab.datasets import folder_splits
from deeplab.datasets.color_tables import Color, ColorTable
from deeplab.names import agreeing, counted, listed, shown
from deeplab.wording import option

_RULES_OF_REMARKS = {
    sources.UNUSED_MASK: 'unused_masks',
    folder_splits.OTHER_TEXT: 'other_texts',
    folder_splits.LEFT_OUT: 'left_out',
    folder_splits.REPEATED: 'left_out',
    folder_splits.UNLISTED: 'unlisted',
}
_COLORS_SHOWN = 12


def check(data: Data) -> Iterator[Finding]:
    """Yields the findings about files."""
    values = {
        'skip': option('DatasetOptions.skip_corrupt_records', True),
        'suffix': option('DoctorOptions.mask_suffix'),
        'channels': data.descriptor.image_channels,
    }
    for split, facts in data.splits.items():
        for name, rule in RULES.items():
            count = facts.problems[name]
            is_solved = rule.solved_by_builders and not data.source.is_records
            if not count or is_solved or name == 'ids':  # `label_rules` looks at the ids of all masks together
                continue
            if name == 'no_mask' and data.is_classification:
                continue
            among = counted(facts.samples, 'sample')
            what = f"{count:,} of {among} of split '{split}' {agreeing(count, rule.what.format(**values))}."
            if name == 'shards':
                what = f"The shards of split '{split}' are not complete."
            cases = [(split, case) for case in facts.cases[name]]
            fix = _fix_of_files(data, name) or rule.fix_text(data.source.is_records, **values)
            severity = None
            if name == 'no_mask' and data.source.is_records and count == facts.samples:
                if others := data.planes_alone(split):
                    fix = f'No change is needed for tasks that read only {" or ".join(others)}; others need masks.'
                    severity = NOTE
                elif split not in (data.train, data.evaluated):  # such as a test split
                    fix = 'No change is needed: the split can be visualized, but neither trained on nor evaluated.'
                    severity = NOTE
            yield data.finding(name, split, what, fix, cases, severity, count)
        yield from _without_plane(data, split)
    yield from _unused(data)


def _without_plane(data: Data, split: str) -> Iterator[Finding]:
    """Yields findings about images without a plane that other images of the split have."""
    images = data.splits[split].images
    for key in sorted(frozenset().union(*(image.planes for image in images))):
        cases = [(split, Case(image.name, image.number)) for image in images if key not in image.planes]
        if cases:
            what = f"{len(cases)} of {counted(len(images), 'image')} of split '{split}' "
            what += agreeing(len(cases), f"have no plane '{key}', which training on it needs.")
            fix = None if data.source.is_records else 'Add the missing files to the folder of the plane.'
            yield data.finding('no_plane', split, what, fix, cases)


def _fix_of_files(data: Data, name: str) -> str:
    """Returns the fix of a rule for files, where it can be more exact than for records; '' where it cannot."""
    source, colors = data.source, data.mask_colors()
    if name == 'color_mask' and colors and data.table is not None:
        return _fix_of_colors(data, data.table, colors)
    if source.is_records:
        return ''
    if name == 'misnamed' and source.mask_suffix:
        suffix = option('DoctorOptions.mask_suffix', source.mask_suffix)
        return f'Set {suffix}, also of deeplab build_folder_data, or rename the masks.'
    if name == 'color_mask' and colors:
        line, table = f'{" ".join(map(str, colors[0]))} NAME', option('DoctorOptions.colors')
        return (
            f"Write a line for each class, such as '{line}', to a file for {table} of deeplab build_folder_data, or of "
            f'this program with {option("DoctorOptions.fix")}. The colors are {_listed(colors)}.'
        )
    if name == 'corrupt' and not source.is_described:
        return 'Copy or save these files again, or remove them.'
    return ''


def _fix_of_colors(data: Data, table: ColorTable, colors: Sequence[Color]) -> str:
    """Returns the fix for masks in colors whose meaning `table` gives, perhaps not for all."""
    given = option('DoctorOptions.colors', data.options.colors)
    if data.options.colors is None:
        given = f'The palette of {option("DoctorOptions.dataset", data.options.dataset)}'
    if lacking := table.lacking(colors):
        return (
            f'{given} gives the colors a meaning, but {len(lacking)} of {len(colors)} '
            f'{agreeing(len(lacking), "are")} not in it: {_listed(lacking)}. Add them to the table, or fix the masks.'
        )
    return build_again(
        data,
        f'{given} has all of these {len(colors)} colors: convert the masks with it by deeplab '
        f'build_folder_data, or by this program with {option("DoctorOptions.fix")}',
    )


def _listed(colors: Sequence[Color]) -> str:
    return listed([' '.join(map(str, color)) for color in colors], _COLORS_SHOWN)


def _unused(data: Data) -> Iterator[Finding]:
    for remark in data.source.remarks:
        if remark.kind in _RULES_OF_REMARKS:  # others are findings about samples
            cases = [('', Case(shown(name))) for name in remark.names]
            rule, count = _RULES_OF_REMARKS[remark.kind], len(remark.names) or 1
            yield data.finding(rule, '', f'{remark.what}.', cases=cases, count=count)
