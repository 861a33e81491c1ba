"""docs/text_detection.md and its plugin, docs/plugins/east.py: geometry, targets, losses, metric, command lines."""

import ast
import contextlib
import json
import pathlib
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from benchmarks import _text_pages
from deeplab import cli, common, model
from deeplab.core import cost
from deeplab.errors import DataError
from deeplab.evaluation import states
from deeplab.files import user_modules
from deeplab.options import ModelOptions
from deeplab.registry import REGISTRIES, TASKS, TaskContext
from tests.helpers.registries import changes_undone

ROOT = pathlib.Path(__file__).parent.parent
PLUGIN = ROOT / 'docs' / 'plugins' / 'east.py'
PAGE = (ROOT / 'docs' / 'text_detection.md').read_text(encoding='utf-8')
SIZE = (65, 81)
# Rows and columns of corners, clockwise from the upper left one: upright, turned, and the smallest side 4 pixels.
TEXTS = np.array(
    [
        [(6, 8), (6, 48), (22, 48), (22, 8)],
        [(30, 30), (38, 62), (54, 58), (46, 26)],
        [(58, 60), (58, 76), (62, 76), (62, 60)],
    ],
    np.float32,
)
READABLE = np.zeros((3, 1), np.float32)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """A folder with the plugin and pages of text; what the plugin registers is gone at the end."""
    path = tmp_path_factory.mktemp('east')
    shutil.copy(PLUGIN, path)
    _text_pages.write(path / 'train', 4, seed=0, side=97, words=2)
    _text_pages.write(path / 'val', 3, seed=1, side=97, words=2)
    with contextlib.ExitStack() as undone:
        for registry in REGISTRIES.values():
            undone.enter_context(changes_undone(registry))
        yield path


@pytest.fixture(scope='module')
def east(folder):
    return user_modules.run_file(folder / 'east.py', 'plugin')


@pytest.fixture
def context(east):
    return TaskContext(1, settings={parameter.name: parameter.default for parameter in TASKS.get('text').parameters})


def targets_of(east, context, texts=TEXTS, ignored=READABLE):
    sample = {
        common.IMAGE: tf.zeros([*SIZE, 3]),
        east.TEXTS.key: tf.constant(texts),
        east.IGNORED.key: tf.constant(ignored),
    }
    return {name: value.numpy() for name, value in east.targets(sample, context).items()}


def test_the_plugin_uses_nothing_private():
    tree = ast.parse(PLUGIN.read_text(encoding='utf-8'))
    names = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    names += [alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names]
    names += [part for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for part in node.module.split('.')]
    assert not [name for name in names if name.startswith('_')]


def test_areas_of_intersections(east):
    square = east.polygon([(0, 0), (0, 4), (4, 4), (4, 0)])
    assert east.signed_area(square) == 16
    assert east.polygon([(0, 0), (4, 0), (4, 4), (0, 4)])[0] != square[0]  # it was counterclockwise
    shifted = [point + 1 + 2j for point in square]
    assert east.overlap(square, shifted) == (6, 26)
    diamond = east.polygon([(-2, 2), (2, 6), (6, 2), (2, -2)])
    assert east.overlap(square, diamond) == (16, 32)
    assert east.iou(square, [point + 5 for point in square]) == 0
    assert east.iou(square, [point + 500 for point in square]) == 0
    assert east.iou(square, square) == 1


@pytest.mark.parametrize('seed', range(4))
def test_intersections_agree_with_counted_pixels(east, seed):
    rng = np.random.default_rng(seed)
    quadrangles = []
    for _ in range(2):
        angle, (height, width) = rng.uniform(-0.7, 0.7), rng.uniform(5, 30, 2)
        corners = np.array([(-height, -width), (-height, width), (height, width), (height, -width)]) / 2
        quadrangles.append(east.turned(corners, angle) + 30 + rng.uniform(-8, 8, 2))
    grid = np.stack(np.meshgrid(*[np.arange(0, 60, 0.1)] * 2, indexing='ij'), axis=-1)
    counted = np.logical_and(*(east.is_inside(corners, grid) for corners in quadrangles)).sum() / 100
    assert east.overlap(*map(east.polygon, quadrangles))[0] == pytest.approx(counted, abs=2)


def test_a_box_is_fitted_around_a_quadrangle(east):
    corners = np.array([(0, 0), (0, 10), (4, 10), (4, 0)], np.float64)
    for angle in (-0.7, -0.1, 0.0, 0.4):
        fitted, first, last = east.fitted_box(east.turned(corners, -angle))
        assert fitted == pytest.approx(angle)
        np.testing.assert_allclose(last - first, (4, 10))
    slanted = np.array([(0, 2), (0, 10), (4, 12), (4, 0)], np.float64)
    angle, first, last = east.fitted_box(slanted)
    assert (angle, *first, *last) == pytest.approx((0, 0, 0, 4, 12))


def test_corners_move_inward_by_a_share_of_the_shorter_side(east):
    np.testing.assert_allclose(east.shrunk(TEXTS[0], 0.3), [(10.8, 12.8), (10.8, 43.2), (17.2, 43.2), (17.2, 12.8)])


def test_targets_of_an_upright_text(east, context):
    made = targets_of(east, context)
    assert {name: value.shape for name, value in made.items()} == {
        'text_score': (17, 21, 1), 'text_geometry': (17, 21, 4), 'text_angle': (17, 21, 1), 'mask': (17, 21, 1)
    }  # fmt: skip
    rows, columns = np.nonzero(made['text_score'][:7, ..., 0])
    assert (set(rows), columns.min(), columns.max()) == ({3, 4}, 4, 10)  # 12 and 16; 16 to 40
    np.testing.assert_allclose(made['text_geometry'][3, 4], np.array([6, 32, 10, 8]) / 4)  # top right bottom left
    assert made['text_angle'][3, 4] == 0
    assert made['text_angle'][10, 11] == pytest.approx(np.arctan2(8, 32))


def test_texts_that_are_ignored_small_or_cut_are_masked(east, context):
    cut = TEXTS - np.float32([[[0, 9]], [[0, 0]], [[0, 0]]])
    made = targets_of(east, context, cut, np.array([[0], [1], [0]], np.float32))
    assert not made['text_score'].any()
    masked = made['mask'][..., 0] == 0
    assert masked[3, 4] and masked[10, 11] and masked[15, 17]
    assert made['mask'].sum() > 0.6 * made['mask'].size


def maps_of(made):
    """What a perfect network gives, at the size of the image."""
    size = tuple(4 * (side - 1) + 1 for side in made['mask'].shape[:2])
    factors = {'text_geometry': 4.0}
    return {
        name: tf.compat.v1.image.resize_bilinear(value[np.newaxis], size, align_corners=True)[0].numpy()
        * factors.get(name, 1.0)
        for name, value in made.items()
        if name != 'mask'
    }


def test_perfect_outputs_decode_to_the_texts(east, context):
    result = east.decode(maps_of(targets_of(east, context)), context)
    boxes = result['boxes'][np.argsort(result['boxes'][:, 0, 0])]
    np.testing.assert_allclose(boxes, TEXTS[:2], atol=1.5)  # the second is not quite a rectangle
    assert (result['scores'] > 1).all()  # sums over pixels
    nothing = {name: np.zeros((9, 9, channels)) for name, channels in east.CHANNELS.items()}
    assert east.decode(nothing, context)['boxes'].shape == (0, 4, 2)


def test_losses_of_perfect_and_of_wrong_outputs(east, context):
    made = {name: value[np.newaxis] for name, value in targets_of(east, context).items()}
    share = made['text_geometry'] / (512 / 4)
    perfect = {
        'text_score': np.where(made['text_score'] > 0, 40.0, -40.0).astype(np.float32),
        'text_geometry': np.log(np.maximum(share, 1e-6) / (1 - share)).astype(np.float32),
        'text_angle': -np.log(1 / (made['text_angle'] / (np.pi / 2) + 0.5) - 1).astype(np.float32),
    }
    terms = east.losses(perfect, made, context)
    for name, weight in (('score', 0.01), ('box', 1.0), ('angle', 20.0)):
        assert float(terms[name].value) == pytest.approx(0, abs=1e-5)
        assert terms[name].weight == weight
    pixels = made['mask'].size
    texts = made['text_score'].sum()
    wrong = {**perfect, 'text_score': -perfect['text_score'], 'text_angle': np.zeros_like(perfect['text_angle'])}
    terms = east.losses(wrong, made, context)
    assert float(terms['score'].value) == pytest.approx(1, abs=1e-5)
    turns = 1 - np.cos(made['text_angle'][made['text_score'] > 0])
    assert float(terms['angle'].value) == pytest.approx(turns.sum() / pixels, rel=1e-4)
    half = {**perfect, 'text_geometry': np.full_like(share, -40.0)}  # all distances are 0
    areas = 16 * made['text_geometry'][..., 0::2].sum(-1) * made['text_geometry'][..., 1::2].sum(-1)
    expected = (np.log(areas + 1) * made['text_score'][..., 0]).sum() / pixels
    assert float(east.losses(half, made, context)['box'].value) == pytest.approx(expected, rel=1e-4)
    assert 0 < texts < pixels


def test_figures_count_each_text_once_and_leave_ignored_ones_out(east, context):
    sample = {east.TEXTS.key: TEXTS, east.IGNORED.key: np.array([[0], [0], [1]], np.float32)}
    metric, other = east.TextMetric(context), east.TextMetric(context)
    twice_and_ignored = np.stack([TEXTS[0], TEXTS[0] + 1, TEXTS[2], TEXTS[0] + 40])
    metric.update(sample, {'boxes': twice_and_ignored, 'scores': np.ones(4)})
    assert metric.result() == {'precision': 1 / 3, 'recall': 1 / 2, 'f_score': 2 / 5}
    other.update(sample, {'boxes': TEXTS[:2], 'scores': np.ones(2)})
    restored = east.TextMetric(context)
    states.restore(restored, states.state_of(other, 'text'))  # as from another worker
    metric.merge(restored)
    assert metric.result() == {'precision': 3 / 5, 'recall': 3 / 4, 'f_score': 6 / 9}
    assert set(east.TextMetric(context).result().values()) == {None}


def test_boxes_are_written_and_drawn(east, context):
    result = {'boxes': TEXTS[:1], 'scores': np.array([2.5], np.float32)}
    image = np.zeros((*SIZE, 3), np.float32)
    assert east.lines(result, image, context) == '8.0,6.0,48.0,6.0,48.0,22.0,8.0,22.0,2.5\n'
    drawn = east.overlay(result, image, context)
    assert drawn.dtype == np.uint8 and drawn[6, 30, 0] == 255 and not drawn[14, 30].any()


def test_files_of_texts(east, tmp_path):
    path = tmp_path / 'gt_img_1.txt'
    path.write_text('1,2,3,4,5,6,7,8,a, b\n0,0,9,0,9,9,0,9,###\n', 'utf-8-sig')
    corners, ignored = east.read_texts(path)
    np.testing.assert_array_equal(corners[0], [(2, 1), (4, 3), (6, 5), (8, 7)])
    assert ignored.tolist() == [False, True]
    Image.new('RGB', (20, 10)).save(tmp_path / 'img_1.png')
    (item,) = east.items(tmp_path)
    assert (item.name, len(item.planes)) == ('img_1.png', 2)
    path.write_text('1,2,3,4,word\n')
    with pytest.raises(DataError, match='line 1: it is not x1,y1'):
        east.read_texts(path)
    path.unlink()
    with pytest.raises(DataError, match=r"no 'img_1.txt' or 'gt_img_1.txt'"):
        east.items(tmp_path)


def test_mirrored_outputs(east):
    """A text and its mirror image: the network's maps, mirrored, are the same."""
    options = ModelOptions({common.OUTPUT_TYPE: 1}, task='text')
    score, geometry, angle = east.outputs(options)
    assert score.mirrored is None
    values = tf.constant([[[[1.0, 2.0, 3.0, 4.0]]]])
    np.testing.assert_array_equal(geometry.mirrored(values)[0, 0, 0], [1, 4, 3, 2])
    np.testing.assert_allclose(angle.activation(angle.mirrored(values)), -angle.activation(values), atol=1e-6)
    assert float(geometry.activation(tf.constant(0.0))) == 512 / 2 / 4


@pytest.mark.parametrize('variant', ['mobilenet_v2', 'resnet_v1_50'])
def test_names_of_variables(east, variant):
    options = ModelOptions({common.OUTPUT_TYPE: 1}, task='text', model_variant=variant, output_stride=32)
    with cost.abstract_graph() as outlined:
        maps = model.predict_maps(tf.compat.v1.placeholder(tf.float32, [1, 65, 97, 3]), options)
    assert {name: value.shape[-1] for name, value in maps.items()} == {
        'text_score': 1, 'text_geometry': 4, 'text_angle': 1
    }  # fmt: skip
    own = {name: shape for name, shape in outlined.shapes.items() if 'weights' in name}
    assert own['logits/text_geometry/weights'] == (1, 1, 32, 4)
    assert own['east/merge16/weights'] == (3, 3, 128, 128)
    assert own['east/project8/weights'][-1] == 64 and own['east/last/weights'] == (3, 3, 32, 32)
    assert not [name for name in own if name.startswith(('aspp', 'image_pooling', 'decoder'))]


def commands():
    """The command lines of the page: words of each."""
    lines = '\n'.join(re.findall(r'```\n(.*?)```', PAGE, re.DOTALL)).replace('\\\n', ' ').splitlines()
    return [line.split() for line in lines if line.startswith(('python ', 'deeplab '))]


def in_small(words, *changes):
    """Words with other values of some flags."""
    names = [change.partition('=')[0] for change in changes]
    return [word for word in words if word.partition('=')[0] not in names] + list(changes)


SMALL = ['--train_crop_size=65,65', '--train_batch_size=2', '--training_number_of_steps=2', '--base_learning_rate=0.01']


@pytest.mark.slow
def test_the_command_lines_of_the_page(east, folder, monkeypatch):
    monkeypatch.chdir(folder)
    build, train, evaluate = commands()[:3]
    assert build[:3] == ['python', 'east.py', 'records']
    made = east.build(build[2], {'train': 'train', 'val': 'val'})
    assert made['splits']['train']['images'] == 4
    assert cli.main(in_small(train[1:], *SMALL)) == 0
    assert cli.main(evaluate[1:]) == 0
    figures = json.loads((folder / 'eval' / 'metrics-2.json').read_text())
    assert figures['metrics']['text'].keys() == {'precision', 'recall', 'f_score'}
    assert figures['images'] == 3
    predict, visualize = (words for words in commands() if words[1] in ('predict', 'vis'))
    assert cli.main([word if word != 'photos' else 'val' for word in predict[1:]] + ['--text_threshold=0.1']) == 0
    assert {path.parent.name for path in (folder / 'predicted').rglob('img_1.*')} == {'boxes', 'overlay'}
    lines = (folder / 'predicted' / 'boxes' / 'img_1.txt').read_text().splitlines()
    assert all(len(line.split(',')) == 9 for line in lines)
    assert cli.main(visualize[1:]) == 0
    assert len(list((folder / 'vis').rglob('*.txt'))) == 3


@pytest.mark.slow
def test_the_network_of_the_paper_trains_and_exports(east, folder, monkeypatch, capsys):
    """With fewer layers; that ResNet-50 is built, `test_names_of_variables` shows."""
    monkeypatch.chdir(folder)
    east.build('records', {'train': 'train', 'val': 'val'})
    (train,) = [words for words in commands() if '--model_variant=resnet_v1_50' in words]
    (export,) = [words for words in commands() if words[1] == 'export_model']
    train = [word for word in train if not word.startswith('--tf_initial_checkpoint=')]
    assert cli.main(in_small(train[1:], *SMALL, '--model_variant=resnet_v1_18')) == 0
    assert cli.main(in_small(export[1:], '--checkpoint_path=logs/text50', '--crop_size=65,65')) == 0
    table = capsys.readouterr().out.partition('largest difference')[2].split()
    assert table[:3] == ['text_score', 'text_geometry', 'text_angle']
    assert [float(value) for value in table[4:7]] == pytest.approx([0, 0, 0], abs=1e-3)
    graph = tf.compat.v1.GraphDef.FromString((folder / 'east.pb').read_bytes())
    assert {'text_score', 'text_geometry', 'text_angle'} <= {node.name for node in graph.node}
