"""`deeplab predict`: from files to files. Covers cli/predict_flags.py, options/prediction.py and
inference/output_folder.py."""

import contextlib
import json
import os

import numpy as np
import pytest
from PIL import Image

from deeplab import cli
from deeplab.errors import DataError, OptionError
from deeplab.files import folder_lock
from deeplab.options import EngineOptions, PredictOptions, PredictorOptions
from deeplab.programs import predict
from tests.helpers import image_samples, predictor_setup

pytestmark = pytest.mark.usefixtures('tiny_network')


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A working folder with two photos of one name."""
    monkeypatch.chdir(tmp_path)
    os.mkdir('photos')
    for i, name in enumerate(('a.png', 'a.bmp')):
        Image.fromarray(predictor_setup.pixels(20, 30, i)).save(os.path.join('photos', name))
    return tmp_path


def options(training, *inputs, **changes):
    return PredictOptions(inputs or ('photos',), checkpoint_dir=str(training), **changes)


def test_fifty_mixed_files(training, tmp_path, monkeypatch):
    """The good ones are done, the bad ones listed with the reason, and the status says so."""
    monkeypatch.chdir(tmp_path)
    good, bad = image_samples.good(), image_samples.bad()
    for name, content in {name: content for name, (content, _) in (good | bad).items()}.items():
        for folder in ('files', 'files/again'):
            os.makedirs(folder, exist_ok=True)
            if folder == 'files' or len(os.listdir(folder)) < 50 - len(good) - len(bad):
                (tmp_path / folder / name).write_bytes(content)
    again = set(os.listdir('files/again'))
    # A folder gives only files with the extensions of images: the others are named.
    result = predict.run(options(training, 'files', 'files/drawing.eps', save=('mask', 'overlay', 'confidence')))
    summary = json.loads((tmp_path / 'predictions' / 'predictions.json').read_text())
    assert len(summary['images']) + len(summary['failed']) == 50
    assert result.status == 1 and result.images == len(good) + len(again & set(good))
    assert {os.path.basename(failure['path']) for failure in summary['failed']} == set(bad)
    for name, (_, reason) in bad.items():
        failed = next(each for each in summary['failed'] if each['path'] == os.path.join('files', name))
        assert any(word in failed['reason'].lower() for word in reason.lower().split('|')), failed
        assert name in result.report
    for entry in summary['images']:
        size = good[os.path.basename(entry['path'])][1]
        assert (entry['height'], entry['width']) == size and abs(sum(entry['shares'].values()) - 1) < 1e-6
        for kind in ('mask', 'overlay', 'confidence'):
            with Image.open(tmp_path / 'predictions' / entry['files'][kind]) as image:
                assert image.size == size[::-1]
    paths = [path for entry in summary['images'] for path in entry['files'].values()]
    assert len(set(paths)) == len(paths) == 3 * result.images


def test_overlays_with_a_legend(training, photos):
    sizes = {}
    for legend in (None, 'present', 'all'):
        predict.run(options(training, save=('mask', 'overlay'), output_dir='out', overlay_legend=legend))
        for name in ('mask/a.png.png', 'overlay/a.png.jpg', 'overlay/a.bmp.jpg'):
            with Image.open(os.path.join('out', name)) as image:
                sizes[legend, name] = image.size
    assert {size for (_, name), size in sizes.items() if 'mask' in name} == {(30, 20)}
    assert sizes[None, 'overlay/a.png.jpg'] == (30, 20) and sizes['present', 'overlay/a.png.jpg'][0] > 100
    assert sizes['all', 'overlay/a.png.jpg'] == sizes['all', 'overlay/a.bmp.jpg']


def test_results_and_summary(training, photos):
    kinds = ('mask', 'color', 'overlay', 'confidence', 'probabilities')
    result = predict.run(options(training, save=kinds, output_dir='out'))
    assert result.status == 0 and result.failures == ()
    assert '2 images' in result.report and 'out/predictions.json' in result.report
    masks = [np.asarray(Image.open(f'out/mask/{name}.png')) for name in ('a.png', 'a.bmp')]
    scores = np.load('out/probabilities/a.png.npy')
    assert scores.shape == (20, 30, 4) and np.array_equal(scores.argmax(axis=2), masks[0])
    assert not np.array_equal(*masks)
    summary = json.loads((photos / 'out' / 'predictions.json').read_text())
    assert summary['classes'] == predictor_setup.CLASSES and summary['failed'] == []
    assert summary['network'].endswith('model.ckpt-7') and summary['images_per_second'] > 0
    entry = next(each for each in summary['images'] if each['path'] == 'photos/a.png')
    assert entry['files']['overlay'] == 'overlay/a.png.jpg' and set(entry['files']) == set(kinds)
    assert entry['shares'] == {
        predictor_setup.CLASSES[i]: pytest.approx((masks[0] == i).mean()) for i in np.unique(masks[0])
    }  # fmt: skip


def _full(*_):
    raise DataError('the disk is full')


def test_files_of_others_are_kept(training, photos, monkeypatch):
    predictor = predict._predictor(options(training))
    monkeypatch.setattr(predict, '_predictor', lambda _: contextlib.nullcontext(predictor))
    os.makedirs('out/mask')
    for name in ('out/mask/a.png.png', 'out/predictions.json'):
        (photos / name).write_text('mine')
        with pytest.raises(OptionError, match=f'output_dir.*{name}.*overwrite'):
            predict.run(options(training, output_dir='out'))
        assert (photos / name).read_text() == 'mine'
        os.remove(name)
    with folder_lock.held('out', 'predict', ''), pytest.raises(OptionError, match='output_dir.*another predict'):
        predict.run(options(training, output_dir='out'))
    (photos / 'out/mask/a.png.png').write_text('mine')
    assert predict.run(options(training, output_dir='out', overwrite=True)).images == 2
    (photos / 'out/mask/a.png.png.1234567890.partial').write_text('of a killed run')
    # What predict has written itself, it replaces; what was changed since, it does not.
    assert predict.run(options(training, output_dir='out')).images == 2
    assert predict.run(options(training, 'photos/a.bmp', output_dir='out')).images == 1
    assert not os.path.exists('out/mask/a.png.png.1234567890.partial')
    assert os.path.exists('out/mask/a.png.png') and os.path.exists('out/mask/a.png')
    with monkeypatch.context() as patch, pytest.raises(DataError, match='full'):
        patch.setattr('deeplab.inference.output_folder.OutputFolder.write', _full)
        predict.run(options(training, output_dir='out'))
    assert not os.path.exists('out/predictions.json')  # which would be of the run before
    (photos / 'out/mask/a.png').write_text('edited')
    with pytest.raises(OptionError, match='overwrite'):
        predict.run(options(training, 'photos/a.bmp', output_dir='out'))
    predictor.close()


def test_only_some_classes(training, photos):
    predict.run(options(training, predictor=PredictorOptions(classes=('road',))))
    summary = json.loads((photos / 'predictions/predictions.json').read_text())
    assert all(set(entry['shares']) <= {'road'} for entry in summary['images'])
    assert set(np.unique(Image.open('predictions/mask/a.png.png'))) <= {1, 255}


def test_the_summary_says_what_auto_chose_from(training, photos):
    predict.run(options(training, predictor=PredictorOptions(execution=EngineOptions('tensorflow', 'auto'))))
    summary = json.loads((photos / 'predictions/predictions.json').read_text())
    assert (summary['engine'], summary['precision']) == ('tensorflow', 'float32')
    (only,) = summary['engine_candidates']
    assert only['seconds'] > 0 and only['agreement'] == 1.0 and only['reason'] == ''
    predict.run(options(training))
    assert 'engine' not in json.loads((photos / 'predictions/predictions.json').read_text())


def test_nothing_to_predict(training, photos):
    os.mkdir('empty')
    (photos / 'list.txt').write_text('\n')
    for text, reason in (
        ('empty', "'empty'.*no image"),
        ('list.txt', "list.txt' is empty"),
        ('missing.jpg', 'missing.jpg.*does not exist'),
        ('*.gif', 'no file'),
    ):
        with pytest.raises(DataError, match=reason):
            predict.run(options(training, text))
    with pytest.raises(OptionError, match="no class 'boat'"):
        predict.run(options(training, predictor=PredictorOptions(classes=('boat',))))
    assert not os.path.exists('predictions')  # nothing was predicted


def test_videos_need_their_packages(training, photos, monkeypatch):
    (photos / 'photos' / 'clip.mp4').write_bytes(b'no video')
    monkeypatch.setattr('importlib.util.find_spec', lambda name: None)
    with pytest.raises(OptionError, match=r'imageio.*deeplab-toolkit\[video\]'):
        predict.run(options(training))


def words(*more):
    return cli.options_of('predict', ['a.jpg', 'b.jpg', *more])


def test_the_command_line():
    found = words('--checkpoint_dir=logs', '--atrous_rates=6', '--decoder_output_stride=4', '--save=mask,color')
    assert found.inputs == ('a.jpg', 'b.jpg') and found.save == ('mask', 'color')
    assert found.network == {'AsppOptions.rates': (6,), 'DecoderOptions.output_strides': (4,)}
    assert found.predictor == PredictorOptions()
    found = words(
        '--export_path=x.pb', '--window=65,97', '--eval_scales=0.5', '--classes=sky, 3', '--min_resize_value=9'
    )
    assert (found.export_path, found.predictor.windows.window) == ('x.pb', (65, 97))
    assert found.predictor.classes == ('sky', '3')
    assert found.predictor.prediction.scales == (0.5,) and found.predictor.resize.min_value == 9
    assert words('--checkpoint_dir=logs').save is None
    assert words('--checkpoint_dir=logs', '--save=mask', '--overlay_alpha=0.3').save == ('mask', 'overlay')
    found = words('--checkpoint_dir=logs', '--save=color', '--overlay_legend=present')
    assert (found.save, found.overlay_legend) == (('color', 'overlay'), 'present')
    found = words('--preset=mobilenetv2_coco_voc_trainaug')
    assert found.preset == 'mobilenetv2_coco_voc_trainaug' and found.predictor.dataset == 'pascal_voc_seg'
    assert found.network['ModelOptions.model_variant'] == 'mobilenet_v2' and found.predictor.crop_size is None


@pytest.mark.parametrize(
    ('flags', 'message'),
    [
        ((), '--checkpoint_dir.*--export_path.*--preset'),
        (('--checkpoint_dir=a', '--export_path=b'), '--checkpoint_dir.*--export_path'),
        (('--preset=mobilenetv2_coco_voc_trainaug', '--export_path=b'), '--preset.*--export_path'),
        (('--checkpoint_dir=a', '--save=masked'), '--save=masked.*overlay'),
        (('--checkpoint_dir=a', '--save='), '--save.*mask'),
        (('--checkpoint_dir=a', '--overlay_alpha=2'), '--overlay_alpha=2.*0 to 1'),
        (('--checkpoint_dir=a', '--overlay_legend=some'), '--overlay_legend=some.*present, all'),
        (('--checkpoint_dir=a', '--window=65,65', '--window_stride=66,65'), '--window_stride=66,65.*65,65'),
    ],
)
def test_wrong_command_lines(flags, message):
    with pytest.raises(OptionError, match=message):
        words(*flags)
