"""The report of the doctor as one HTML file without scripts: findings, pictures of the worst cases, classes."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from PIL import Image

from deeplab.checks import class_rules, contradicted_masks
from deeplab.checks.data_rules import RULES
from deeplab.checks.diagnosis import WITHOUT_CHECKPOINT, Diagnosis
from deeplab.checks.findings import Data, has, severity_counts
from deeplab.checks.inspection import class_ids_of, picture
from deeplab.checks.label_rules import LABEL_WEIGHTS
from deeplab.checks.rule import HARMFUL
from deeplab.checks.sources import Sample
from deeplab.datasets.images import mask_ids
from deeplab.errors import DataError
from deeplab.names import counted
from deeplab.pictures import drawing, html_page
from deeplab.pictures.html_page import image_tag, prose, text

_FOLDER = pathlib.Path(__file__).parent / 'page'
_PICTURES = 6  # of a finding
_MOST_PICTURES = 90  # of all findings
_BY_BORDERS = ('shifted', 'misplaced')
_EXAMPLES = 12  # images of the split to train on
_SIDE = 320  # longest side, in pixels
_WRONG = (255, 0, 220)  # ids that are not classes
_NOTHING = 128


def render(diagnosis: Diagnosis) -> str:
    """Returns the page."""
    sections = [
        ('findings', 'Findings', ''.join(_findings(diagnosis))),
        ('masks', 'Masks that networks contradict', ''.join(_masks(diagnosis))),
        ('repairs', 'Repaired copy', ''.join(_repairs(diagnosis))),
        ('classes', 'Classes', ''.join(_classes(diagnosis))),
        ('commands', 'Command lines', ''.join(_commands(diagnosis))),
        ('images', 'Images', ''.join(_examples(diagnosis.data))),
    ]
    path = diagnosis.data.options.data
    is_relative = os.path.basename(os.path.normpath(path)) in ('.', '..')
    title = f'Data set {os.path.basename(os.path.abspath(path)) if is_relative else path}'
    parts = {
        'head': html_page.head('doctor', title, (_FOLDER / 'style.css').read_text('utf-8')),
        'title': text(title),
        'result': text(' '.join([f'{severity_counts(diagnosis.findings)}.', *_splits(diagnosis.data)])),
        'sections': ''.join(f'<li><a href="#{key}">{title}</a></li>' for key, title, body in sections if body),
        'content': ''.join(
            f'<section id="{key}" aria-labelledby="{key}-title"><h2 id="{key}-title">{title}</h2>{body}</section>\n'
            for key, title, body in sections
            if body
        ),
    }
    return html_page.filled((_FOLDER / 'template.html').read_text('utf-8'), parts)


def _splits(data: Data) -> Iterator[str]:
    for name, facts in data.splits.items():
        sizes = [f'{height} x {width}' for (height, width), _ in facts.image_sizes.most_common()]
        more = f' and {len(sizes) - 3} more sizes' if len(sizes) > 3 else ''
        if sizes:
            images = counted(len(facts.images), 'image')
            yield f'Split {name}: {images} of {", ".join(sizes[:3])}{more} pixels (height x width).'
        else:
            yield f'Split {name}: no image that can be read.'


def _findings(diagnosis: Diagnosis) -> Iterator[str]:
    """Yields the findings in order of harm, each with pictures of its first cases."""
    if not has(diagnosis.findings, HARMFUL):
        yield '<div class="card finding is-clean"><p>No errors were found.</p></div>\n'
    left = _MOST_PICTURES
    for number, finding in enumerate(diagnosis.findings, 1):
        shown = finding.samples[: min(_PICTURES, left)]
        pictures = list(_pictures(diagnosis.data, shown, finding.rule in _BY_BORDERS))
        left -= len(pictures)
        rule = RULES[finding.rule]
        yield (
            f'<article class="card finding is-{finding.severity}"><h3><span class="badge">{finding.severity}</span> '
            f'{number}. {text(rule.title)}</h3><p>{prose(finding.what)}</p>'
        )
        if finding.fix:
            yield f'<p><b>Fix:</b> {prose(finding.fix)}</p>'
        if finding.repair and diagnosis.repairs is None:
            yield f'<p><b>{prose("--fix")}</b> {prose(finding.repair)}.</p>'
        yield (
            f'<p class="faded">Rule <code>{rule.name}</code>. A typical case in other data sets: '
            f'{prose(rule.example)}.</p>'
        )
        if finding.cases:
            cases = ''.join(f'<li>{text(case)}</li>' for case in finding.cases)
            total = f'{len(finding.cases)} of {finding.count}' if finding.count > len(finding.cases) else finding.count
            yield f'<details><summary>Cases ({total})</summary><ul>{cases}</ul></details>'
        if pictures:
            yield _list(diagnosis.data, pictures)
        yield '</article>\n'


def _pictures(data: Data, samples: Sequence[tuple[str, int]], by_borders: bool = False) -> Iterator[str]:
    """Yields the pictures of samples, with borders of masks alone where these are the point."""
    splits = {split.name: split for split in data.source.splits}
    for name, number in samples:
        try:
            sample = splits[name].read(number)
        except DataError:
            continue
        photo, overlay, remark = _draw(sample, data, by_borders)
        caption = f'{sample.name} ({name})' + (f': {remark}' if remark else '')
        shown = [(what, pixels) for what, pixels in (('Image', photo), ('Mask of', overlay)) if pixels is not None]
        images = ''.join(image_tag(pixels, f'{what} {sample.name}') for what, pixels in shown)
        yield f'<li><figure><div class="pair">{images}</div><figcaption>{text(caption)}</figcaption></figure></li>'


def _list(data: Data, pictures: Iterable[str]) -> str:
    return f'<ul class="pairs{" is-single" if data.is_classification else ""}">{"".join(pictures)}</ul>'


def _masks(diagnosis: Diagnosis) -> Iterator[str]:
    yield from contradicted_masks.render(diagnosis.data, diagnosis.mask_contradictions, _draw)


def _repairs(diagnosis: Diagnosis) -> Iterator[str]:
    repairs = diagnosis.repairs
    if repairs is None:
        return
    kept = ', '.join(f'{counted(len(names), "image")} of split {split}' for split, names in repairs.splits.items())
    yield f'<p>{text(repairs.folder)} has {text(kept)}.</p><ul>'
    for rule, count in repairs.done.most_common():
        yield f'<li>{text(RULES[rule].title)}: {count} repaired ({prose(RULES[rule].repair)}).</li>'
    for finding in diagnosis.remaining:
        yield f'<li><b>Still {finding.severity}:</b> {prose(finding.what)}</li>'
    yield '</ul>'
    if repairs.left_out:
        yield f'<details><summary>Left out ({len(repairs.left_out)})</summary><ul>'
        for entry in repairs.left_out:
            title = RULES[entry['rule']].title
            yield f'<li>{text(entry["sample"])} ({text(entry["split"])}), {title}: {prose(entry["reason"])}</li>'
        yield '</ul></details>'


def _classes(diagnosis: Diagnosis) -> Iterator[str]:
    """Yields the table of classes with a bar for the share of each."""
    if not diagnosis.table:
        return
    data, trained = diagnosis.data, diagnosis.data.training_text
    about = (
        f'Pixels of {text(trained)}. Weights as with {prose(LABEL_WEIGHTS)}; a part is thin if it is '
        f'narrower than the output stride of {data.options.output_stride}.'
    )
    share, columns = 'Fraction of the pixels', ['Images', 'In thin parts']
    if data.is_classification:
        about = 'Images of each class in each split'
        about += f'; fraction and weight in {text(trained)}.' if trained else '.'
        share, columns = 'Fraction of the images', [text(f'Images of {split}') for split in data.splits]
    yield f'<p class="faded">{about}</p>'
    yield '<div class="scroll" tabindex="0" role="region" aria-label="Table of classes"><table><thead><tr>'
    titles = ['Class', share, '', *columns, 'Weight', 'Id'] if trained else ['Class', *columns, 'Id']
    for title in titles:
        yield f'<th scope="col">{title}</th>'
    yield '</tr></thead><tbody>\n'
    most = max(row['share'] for row in diagnosis.table) or 1
    for row in sorted(diagnosis.table, key=lambda row: -row['share']):
        red, green, blue = (int(part) for part in data.descriptor.palette[row['id']])
        of_images = (
            list(row['images'].values()) if data.is_classification else [row['images'], f'{row["thin_share"]:.0%}']
        )
        numbers = ''.join(f'<td class="number">{each}</td>' for each in of_images)
        color = f'#{red:02x}{green:02x}{blue:02x}'
        fraction, weight = '', ''
        if trained:
            fraction = (
                f'<td class="number">{row["share"]:.2%}</td><td><svg class="bar" viewBox="0 0 100 4" '
                f'preserveAspectRatio="none" aria-hidden="true"><rect width="{100 * row["share"] / most:.2f}" '
                f'height="4" fill="{color}"/></svg></td>'
            )
            weight = f'<td class="number">{row["label_weight"]:.2f}</td>'
        yield (
            f'<tr><td><svg class="swatch" viewBox="0 0 9 9" '
            f'aria-hidden="true"><rect width="9" height="9" fill="{color}"/></svg>{text(row["name"])}</td>'
            f'{fraction}{numbers}{weight}<td class="number">{row["id"]}</td></tr>\n'
        )
    yield '</tbody></table></div>'


def _commands(diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.repair_line:
        yield f'<p>To write a repaired copy:</p>{_command(diagnosis.repair_line)}'
    if diagnosis.suggestion is not None:
        yield f'<p>To train and evaluate{", once the errors are fixed" if diagnosis.status else ""}:</p>'
        yield from map(_command, diagnosis.suggestion.lines)
        if diagnosis.suggestion.from_scratch:
            yield f'<p>{WITHOUT_CHECKPOINT}:</p>{_command(diagnosis.suggestion.from_scratch)}'


def _command(line: str) -> str:
    """Returns a command line, in which no word breaks behind the dashes of a flag."""
    return f'<pre>{" ".join(f"<span>{text(word)}</span>" for word in line.split(" "))}</pre>'


def _examples(data: Data) -> Iterator[str]:
    """Yields images of the split to train on, evenly spaced."""
    facts = data.splits.get(data.train)
    if facts is None or not facts.images:
        return
    step = max(len(facts.images) // _EXAMPLES, 1)
    samples = [(data.train, image.number) for image in facts.images[::step][:_EXAMPLES]]
    what = 'classes' if data.is_classification else 'masks; striped areas are ignored'
    yield f'<p class="faded">Images of split {text(data.train)} with their {what}.</p>'
    yield _list(data, _pictures(data, samples))


def _draw(sample: Sample, data: Data, by_borders: bool) -> tuple[np.ndarray, np.ndarray | None, str]:
    """Draws a sample, whatever is wrong with it; stored pixels are shown, without an EXIF orientation.

    `by_borders` draws the borders in the mask instead of its areas.

    Returns:
      [h, w, 3] uint8, the image, gray where it cannot be read; [h, w, 3] uint8, the mask over it, or the mask alone
      where its values are no ids, and None where the image has classes as a whole; facts that the pictures do not
      show, empty if none.
    """
    photo = _photo(sample.image)
    remark = ''
    if photo is None:
        photo, remark = np.full((_SIDE * 3 // 4, _SIDE, 3), _NOTHING, np.uint8), 'the image cannot be read'
    if data.is_classification:
        classes = class_rules.texts(data, class_ids_of(sample))
        return photo, None, ', '.join(filter(None, (classes, remark)))
    size = (photo.shape[1], photo.shape[0])
    ids = None
    if sample.mask is not None:
        with contextlib.suppress(DataError):
            ids = mask_ids(sample.mask)
    if ids is not None:
        small = np.asarray(Image.fromarray(ids).resize(size, Image.Resampling.NEAREST))
        descriptor = data.descriptor
        palette = descriptor.palette[: descriptor.num_classes]
        if by_borders:
            overlay = drawing.contours(photo, small, drawing.colored(np.arange(256), palette))
        else:
            overlay = drawing.mask_over(photo, small, palette, descriptor.ignore_label)
        is_wrong = (small >= descriptor.num_classes) & (small != descriptor.ignore_label)
        if is_wrong.any():
            overlay[is_wrong] = _WRONG
            remark = 'ids that are not classes in magenta'
        return photo, overlay, remark
    mask = None if sample.mask is None else _photo(sample.mask)
    if mask is None:
        return photo, photo // 2 + 60, remark or 'there is no mask that can be read'
    overlay = np.asarray(Image.fromarray(mask).resize(size, Image.Resampling.NEAREST))
    return photo, overlay, remark or 'the mask as it is'


def _photo(content: bytes) -> np.ndarray | None:
    """Returns an image of any format, made smaller, [h, w, 3] uint8; None if it cannot be read."""
    try:
        photo = picture(content, (2 * _SIDE, 2 * _SIDE))
    except Exception:  # damaged files make Pillow's plugins raise anything
        return None
    photo.thumbnail((_SIDE, _SIDE))
    return np.asarray(photo)
