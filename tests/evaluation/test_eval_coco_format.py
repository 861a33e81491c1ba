"""The program eval_coco_format: the original's numbers, files that are wrong. Covers evaluation/coco_panoptic.py."""

import json
import pathlib

import numpy as np
import pytest
from PIL import Image

from deeplab import cli
from deeplab.evaluation import eval_coco_format

GOLDENS = pathlib.Path(__file__).parents[3] / 'shared' / 'goldens' / 'panoptic'
needs_goldens = pytest.mark.skipif(not GOLDENS.exists(), reason='the panoptic goldens are not beside this checkout')


def _words(folder, *more):
    return [
        'eval_coco_format',
        f'--gt_json_file={folder}/coco_gt.json',
        f'--gt_folder={folder}/coco_gt',
        f'--pred_json_file={folder}/coco_pred.json',
        f'--pred_folder={folder}/coco_pred',
        *more,
    ]


def _run(folder, *more):
    name, *words = _words(folder, *more)
    return eval_coco_format.run(cli.options_of(name, words))


# --- The original's numbers ------------------------------------------------------------------------------------------


@needs_goldens
@pytest.mark.parametrize(
    ('words', 'key', 'name'),
    [
        ([], 'panoptic_quality', None),
        (['--metric=pc'], 'parsing_covering_areas_normalised_by_image_size', 'pc'),
        (['--metric=pc', '--nonormalize_by_image_size'], 'parsing_covering_areas_in_pixels', 'pc'),
    ],
)
def test_the_original_s_numbers(words, key, name):
    expected = json.loads((GOLDENS / 'expected.json').read_text())[key]
    for classes in ([], ['--num_categories=7']):
        means = _run(GOLDENS, *words, *classes).means
        for group, figures in expected.items():
            for figure, value in ({name: figures} if name else figures).items():
                found = means[group][figure] * (1 if figure == 'n' else 100)
                assert found == pytest.approx(value, abs=1e-6), (group, figure)


@needs_goldens
@pytest.mark.slow
def test_several_processes_give_the_same():
    one, two = _run(GOLDENS), _run(GOLDENS, '--num_workers=2')
    assert (one.means, one.categories) == (two.means, two.categories)


@needs_goldens
def test_the_report_and_the_file(tmp_path, capsys):
    path = tmp_path / 'results.json'
    assert cli.main(_words(GOLDENS, f'--results_json_file={path}', '--intersection_offset=65536')) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ['|', 'PQ', 'SQ', 'RQ', 'N'],
        ['-' * len(lines[0])],
        ['All', '|', '67.4', '68.3', '82.1', '6'],
    ]
    assert lines[5].startswith('4 images in ')
    found = json.loads(path.read_text())
    assert [category['name'] for category in found['categories'] if not category['isthing']] == ['tree-merged', 'sky']
    assert found['means']['Things']['n'] == 4


# --- The flags -------------------------------------------------------------------------------------------------------


def test_defaults_of_the_original():
    flags = cli.find_program('eval_coco_format').flags
    assert {name: flags[name].default for name in flags if flags[name].default is not None and name in _ORIGINAL} == {
        'metric': 'pq', 'num_categories': 201, 'ignored_label': 0, 'max_instances_per_category': 256,
        'normalize_by_image_size': True, 'num_workers': 0, 'print_digits': 3,
    }  # fmt: skip


_ORIGINAL = (
    'gt_json_file', 'gt_folder', 'pred_json_file', 'pred_folder', 'metric', 'num_categories', 'ignored_label',
    'max_instances_per_category', 'intersection_offset', 'normalize_by_image_size', 'num_workers', 'print_digits',
)  # fmt: skip


def test_smallest_values_that_are_accepted():
    name, *words = _words('nowhere', '--num_workers=-1', '--num_categories=1', '--print_digits=0')
    options = cli.options_of(name, words)
    assert (options.num_workers, options.num_categories, options.print_digits) == (-1, 1, 0)


@pytest.mark.parametrize('word', ['--num_workers=-2', '--num_categories=0', '--print_digits=-1', '--metric=iou'])
def test_values_that_are_refused(word, capsys):
    assert cli.main(_words('nowhere', word)) == 2
    assert word[2:].partition('=')[0] in capsys.readouterr().err


# --- Files -----------------------------------------------------------------------------------------------------------


class Data:
    """Two images of 2x2 pixels: truth and equal predictions."""

    def __init__(self, folder):
        self.folder = folder
        self.content = {}
        for kind in ('gt', 'pred'):
            (folder / f'coco_{kind}').mkdir()
            annotations = []
            for image in (1, 2):
                self.paint(kind, f'{image}.png', [[5, 5], [70_000, 0]])
                segments = [{'id': 5, 'category_id': 1, 'iscrowd': 0}, {'id': 70_000, 'category_id': 2}]
                annotations.append({'image_id': image, 'file_name': f'{image}.png', 'segments_info': segments})
            categories = [{'id': 1, 'name': 'cat', 'isthing': 1}, {'id': 2, 'name': 'sky', 'isthing': 0}]
            categories = categories if kind == 'gt' else [{'id': 1, 'supercategory': 'animal'}]  # is not read
            self.content[kind] = {'annotations': annotations, 'categories': categories}

    def paint(self, kind, name, ids):
        ids = np.array(ids)
        colors = np.stack([ids & 255, ids >> 8 & 255, ids >> 16], axis=-1).astype(np.uint8)
        Image.fromarray(colors).save(self.folder / f'coco_{kind}' / name)

    def segments(self, kind):
        return self.content[kind]['annotations'][1]['segments_info']

    def run(self, *words):
        for kind, content in self.content.items():
            (self.folder / f'coco_{kind}.json').write_text(json.dumps(content))
        return cli.main(_words(self.folder, *words))


@pytest.fixture
def data(tmp_path):
    return Data(tmp_path)


def test_equal_segmentations(data, capsys):
    assert data.run(f'--results_json_file={data.folder}/results.json') == 0
    assert 'All       |   100.0   100.0   100.0     2' in capsys.readouterr().out
    written = json.loads((data.folder / 'results.json').read_text())
    assert [(row['id'], row['name'], row['isthing'], row['pq']) for row in written['categories']] == [
        (1, 'cat', True, 1.0),
        (2, 'sky', False, 1.0),
    ]


@pytest.mark.parametrize('metric', ['pq', 'pc'])
def test_an_ignored_category_has_no_figures(metric, data):
    data.paint('pred', '1.png', [[70_000, 70_000], [70_000, 0]])
    data.paint('pred', '2.png', [[5, 5], [5, 5]])
    assert data.run('--ignored_label=2', f'--metric={metric}', f'--results_json_file={data.folder}/results.json') == 0
    found = json.loads((data.folder / 'results.json').read_text())['means']['All']
    # The union of the second image contains the ignored pixel for PQ, as in the original, but not the void one.
    of_pq = {'pq': 4 / 9, 'sq': 2 / 3, 'rq': 2 / 3, 'n': 1}
    assert found == pytest.approx(of_pq if metric == 'pq' else {'pc': 0.5, 'n': 1})


@pytest.mark.parametrize('is_crowd', [True, False])
def test_a_crowd_or_an_ignored_segment_excuses_every_category(is_crowd, data, capsys):
    """As in the original; the category 3 of the prediction is not in the truth."""
    data.segments('gt')[0].update({'iscrowd': 1} if is_crowd else {'category_id': 9})
    data.segments('pred')[0]['category_id'] = 3
    assert data.run('--ignored_label=9') == 0
    assert 'All       |   100.0   100.0   100.0     2' in capsys.readouterr().out


def test_images_and_categories_that_the_other_file_lacks(data, capsys):
    data.content['gt']['annotations'].pop()
    data.content['gt']['categories'].pop()
    assert data.run() == 0
    shown = capsys.readouterr()
    assert 'Predictions of 1 images are not evaluated' in shown.err
    assert 'does not describe the categories 2; they count as stuff' in shown.err
    assert shown.out.splitlines()[4].split() == ['Stuff', '|', '100.0', '100.0', '100.0', '1']


def _remove(name):
    return lambda data: (data.folder / name).unlink()


def _set(kind, **values):
    return lambda data: data.segments(kind)[0].update(values)


@pytest.mark.parametrize(
    ('damage', 'parts'),
    [
        (_remove('coco_pred/2.png'), ['There is no file', 'coco_pred/2.png']),
        (lambda data: data.content['pred']['annotations'].pop(), ['1 of 2 images', 'no prediction (image_id 2)']),
        (lambda data: data.content['gt'].update(annotations=[]), ['has no annotations']),
        (lambda data: data.content['gt'].pop('annotations'), ['not in the COCO panoptic format', "'annotations'"]),
        (lambda data: data.content['gt']['annotations'][0].update(image_id=2), ['two annotations of image 2']),
        (lambda data: data.content['gt']['annotations'][1].update(file_name='../x.png'), ['../x.png', 'not inside']),
        (_set('gt', id=70_000), ['image 2', 'two segments have id 70000']),
        (_set('gt', id=1 << 24), ['from 0 to 16777215']),
        (_set('pred', id=6), ['2.png', 'segment 5 (color 5, 0, 0)', 'does not list']),
        (_set('pred', category_id=300), ['category_id 300', '--num_categories=201']),
        (_set('pred', category_id='x'), ['not in the COCO panoptic format']),
        (lambda data: data.paint('pred', '2.png', [[5, 5, 0]]), ['gt/2.png has 2x2', '3x1']),
        (lambda data: (data.folder / 'coco_gt/1.png').write_bytes(b'text'), ['1.png cannot be read']),
        (lambda data: Image.new('L', (2, 2)).save(data.folder / 'coco_gt/1.png'), ['is of mode L']),
    ],
)
def test_what_is_wrong_is_named(data, damage, parts, capsys):
    damage(data)
    assert data.run() == 1
    error = capsys.readouterr().err.splitlines()[-1]
    for part in parts:
        assert part in error


def test_too_many_segments_of_a_category(data, capsys):
    data.segments('gt')[1]['category_id'] = 1
    assert data.run('--max_instances_per_category=1') == 1
    assert 'category 1 has 2 segments, more than --max_instances_per_category=1' in capsys.readouterr().err


def test_missing_folders_and_files(data, capsys):
    assert data.run('--gt_folder=nowhere') == 1
    assert 'There is no folder nowhere' in capsys.readouterr().err
    assert data.run('--pred_json_file=nowhere.json') == 1
    assert 'There is no file nowhere.json' in capsys.readouterr().err
    assert data.run(f'--results_json_file={data.folder}/no/results.json') == 1
    shown = capsys.readouterr()
    assert 'All       |' in shown.out
    assert '--results_json_file: ' in shown.err and "no/results.json' cannot be written" in shown.err
