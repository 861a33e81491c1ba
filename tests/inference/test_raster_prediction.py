"""Rasters predicted in blocks: equal to the whole, continued after an interruption, with the same projection."""

import contextlib
import dataclasses
import json
import types

import numpy as np
import pytest
from PIL import Image

rasterio = pytest.importorskip('rasterio', reason='the package rasterio is not installed')

from deeplab.datasets import rasters  # noqa: E402
from deeplab.errors import DataError, OptionError  # noqa: E402
from deeplab.inference import image_files, raster_prediction  # noqa: E402
from deeplab.inference.predictor import Predictor  # noqa: E402
from deeplab.options import (  # noqa: E402
    AnnotationOptions,
    EngineOptions,
    ModelOptions,
    PredictOptions,
    PredictorOptions,
    RasterOptions,
    ResizeOptions,
    WindowOptions,
)
from deeplab.programs import predict  # noqa: E402
from tests.helpers import drawn_rasters, predictor_setup  # noqa: E402

SIZE = (150, 200)
BLACK = np.zeros((4, 9, 9), np.uint8)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(raster_prediction, 'BLOCK', 64)


@pytest.fixture
def area(tmp_path):
    values = np.moveaxis(predictor_setup.pixels(*SIZE), -1, 0).copy()
    values[:, :40, :70] = 0
    return drawn_rasters.write(tmp_path / 'rasters' / 'area.tif', values, nodata=0)


def options(training, source, folder, **changes):
    predictor = PredictorOptions(windows=WindowOptions(window=(97, 97), window_stride=(32, 32)))
    usual = {'inputs': (str(source),), 'checkpoint_dir': str(training), 'save': ('geotiff',), 'predictor': predictor}
    return PredictOptions(output_dir=str(folder), **(usual | changes))


def read(folder, name='area'):
    with rasterio.open(folder / 'geotiff' / f'{name}.tif') as raster:
        return raster.read(1), raster.profile, raster.colormap(1)


def raised(error):
    def fail(*_):
        raise error

    return fail


def test_blocks_are_as_the_whole_with_the_projection_of_the_raster(training, area, tmp_path):
    result = predict.run(options(training, area, tmp_path / 'out'))
    labels, profile, colors = read(tmp_path / 'out')
    with rasterio.open(area) as raster:
        values = np.moveaxis(raster.read(), 0, -1)
        assert (profile['crs'], profile['transform']) == (raster.crs, raster.transform)
        is_valid = raster.dataset_mask() > 0
    with Predictor.from_checkpoint(training) as predictor:
        expected = predictor(np.ascontiguousarray(values)).labels
    assert len(np.unique(expected)) > 1
    np.testing.assert_array_equal(labels, np.where(is_valid, expected, 255))
    assert (labels[:40, :70] == 255).all() and profile['nodata'] == 255
    assert [colors[number][:3] for number in range(4)] == [tuple(color) for color in predictor_setup.COLORS]
    (entry,) = json.loads((tmp_path / 'out' / 'predictions.json').read_text())['images']
    assert entry['projection'] == 'EPSG:32633' and sum(entry['shares'].values()) == pytest.approx(1)
    assert (result.status, result.images) == (0, 1) and 'area.tif' in result.report
    assert [path.name for path in (tmp_path / 'out' / 'geotiff').iterdir()] == ['area.tif']


def test_a_raster_below_the_size_limit_for_windows_is_one_block(training, area, tmp_path, monkeypatch):
    sizes, original = [], Predictor.predict

    def noted(self, images, **named):
        sizes.extend(image.shape[:2] for image in images)
        return original(self, images, **named)

    monkeypatch.setattr(Predictor, 'predict', noted)
    whole = options(training, area, tmp_path / 'out', predictor=PredictorOptions(), save=('geojson', 'geotiff'))
    predict.run(whole)
    assert sizes == [SIZE] and read(tmp_path / 'out')[0].shape == SIZE
    monkeypatch.setattr(raster_prediction.any_size, 'WHOLE_PIXELS', 1000)
    unlimited = PredictorOptions(windows=WindowOptions(whole_pixels=10**9))
    predict.run(options(training, area, tmp_path / 'blocks', predictor=unlimited))
    assert len(sizes) > 2  # as before, in blocks


def test_blocks_in_8_bits_are_not_mixed_with_others(training, area, tmp_path):
    with Predictor.from_checkpoint(training) as predictor:
        settings = {
            execution: raster_prediction._settings(
                predictor,
                str(area),
                options(training, area, tmp_path, predictor=PredictorOptions(execution=execution)),
                64,
            )
            for execution in (
                EngineOptions(),
                EngineOptions(engine='openvino'),
                EngineOptions(precision='int8', engine='openvino', calibration_dir=str(tmp_path)),
            )
        }
    usual, other, short = settings.values()
    assert usual == other != short


def test_an_interrupted_run_continues_and_a_complete_one_is_kept(training, area, tmp_path, monkeypatch, caplog):
    caplog.set_level('INFO')
    whole = options(training, area, tmp_path / 'whole')
    predict.run(whole)
    calls = []

    def interrupted(self, images, **named):
        calls.append(len(images))
        assert named['part_of'] == SIZE
        if len(calls) == 5:
            raise KeyboardInterrupt
        return original(self, images, **named)

    original = Predictor.predict
    monkeypatch.setattr(Predictor, 'predict', interrupted)
    parts = options(training, area, tmp_path / 'parts')
    with pytest.raises(KeyboardInterrupt):
        predict.run(parts)
    assert not (tmp_path / 'parts' / 'geotiff' / 'area.tif').exists()
    calls.extend([0] * 10)
    before = len(calls)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # after the file is in place
        patch.setattr(raster_prediction, '_counts', raised(KeyboardInterrupt))
        predict.run(parts)
    assert predict.run(parts).images == 1
    assert len(calls) - before == 12 - 4 and '4 of 12 blocks exist' in caplog.text
    np.testing.assert_array_equal(read(tmp_path / 'parts')[0], read(tmp_path / 'whole')[0])
    before = len(calls)
    assert predict.run(parts).images == 1
    assert len(calls) == before and 'is complete' in caplog.text
    predict.run(dataclasses.replace(parts, predictor=dataclasses.replace(parts.predictor, classes=('sky',))))
    assert len(calls) == before + 12  # other settings
    assert set(np.unique(read(tmp_path / 'parts')[0])) == {0, 255}


@pytest.mark.parametrize(('tolerance', 'least'), [(0.0, 1.0), (1.0, 0.98)])
def test_areas_have_the_coordinates_of_the_map(training, area, tmp_path, tolerance, least):
    from rasterio import features

    annotation = AnnotationOptions(tolerance, 0)
    result = predict.run(options(training, area, tmp_path / 'out', save=('geojson', 'geotiff'), annotation=annotation))
    labels, profile, _ = read(tmp_path / 'out')
    text = (tmp_path / 'out/geojson/area.geojson').read_text()
    collection = json.loads(text)
    assert collection['crs']['properties']['name'] == 'urn:ogc:def:crs:EPSG::32633'
    names = predictor_setup.CLASSES
    numbers = [(each['geometry'], names.index(each['properties']['class'])) for each in collection['features']]
    assert {number for _, number in numbers} == set(np.unique(labels)) - {255}
    drawn = features.rasterize(numbers, labels.shape, fill=255, transform=profile['transform'])
    assert (drawn == labels).mean() >= least
    for geometry, _ in numbers:
        assert geometry['type'] == 'Polygon'
        x, y = np.array(geometry['coordinates'][0]).T
        assert (x[:-1] * y[1:] - x[1:] * y[:-1]).sum() > 0  # counterclockwise
    (entry,) = json.loads((tmp_path / 'out/predictions.json').read_text())['images']
    assert entry['files'] == {'geotiff': 'geotiff/area.tif', 'geojson': 'geojson/area.geojson'}
    assert 'area.geojson' in result.report and result.status == 0


def test_band_order_and_values(training, tmp_path):
    pixels = predictor_setup.pixels(*SIZE)
    shuffled = np.moveaxis(pixels[..., [2, 0, 0, 1]], -1, 0).astype(np.float32) / 255
    drawn_rasters.write(tmp_path / 'float.tif', shuffled, nodata=None)
    raster = RasterOptions(bands=(2, 4, 1), value_range=(0.0, 1.0))
    predict.run(options(training, tmp_path / 'float.tif', tmp_path / 'out', raster=raster))
    with Predictor.from_checkpoint(training) as predictor:
        expected = predictor(pixels).labels
    assert (read(tmp_path / 'out', 'float')[0] == expected).all()
    described = tmp_path / 'described.json'
    described.write_text(json.dumps({'num_classes': 4, 'bands': [2, 4, 1], 'value_range': [0, 1]}))
    usual = options(training, tmp_path / 'float.tif', tmp_path / 'usual')
    of_dataset = dataclasses.replace(usual.predictor, dataset=str(described))
    predict.run(dataclasses.replace(usual, predictor=of_dataset))
    assert (read(tmp_path / 'usual', 'float')[0] == expected).all()
    with Predictor.from_checkpoint(training, dataset=str(described)) as predictor:
        assert (predictor(tmp_path / 'float.tif').labels == expected).all()
        with Image.open(drawn_rasters.write(tmp_path / 'four.tif', BLACK)) as opened:
            for source in ((tmp_path / 'four.tif').read_bytes(), opened):
                with pytest.raises(DataError, match=r'trained with bands, .* files only\. Pass the path'):
                    predictor(source)
        with pytest.raises(DataError, match='it has 2 bands, and no band 4'):
            predictor(drawn_rasters.write(tmp_path / 'two.tif', BLACK[:2]))
    with contextlib.closing(image_files.Reader(raster=RasterOptions(value_range=(0.0, 1.0)))) as reader:
        with pytest.raises(DataError, match=r"it has 4 bands, but the network expects 3 channels; only save='geotiff'"):
            reader.read(drawn_rasters.write(tmp_path / 'gray.tif', BLACK, photometric='minisblack', alpha='no'))


def test_rasters_that_cannot_be_predicted(training, area, tmp_path):
    drawn_rasters.write(tmp_path / 'rasters' / 'five.tif', np.ones((5, 30, 30), np.uint8))
    drawn_rasters.write(tmp_path / 'rasters' / 'float.tif', np.ones((3, 30, 30), np.float32))
    (tmp_path / 'rasters' / 'text.tif').write_text('text')
    result = predict.run(options(training, tmp_path / 'rasters', tmp_path / 'out'))
    reasons = {failure.path.rpartition('/')[2]: failure.reason for failure in result.failures}
    assert (result.images, result.status) == (1, 1)
    assert 'it has 5 bands, but the network expects 3 channels' in reasons['five.tif']
    assert 'float32' in reasons['float.tif'] and 'cannot be read as a TIFF' in reasons['text.tif']
    bands = predict.run(options(training, area, tmp_path / 'bands', raster=RasterOptions((1, 2, 7))))
    assert bands.failures[0].reason == 'it has 3 bands, and no band 7. Choose from 1 to 3 with bands'
    images = predict.run(options(training, tmp_path / 'rasters' / 'five.tif', tmp_path / 'masks', save=('mask',)))
    assert "only save='geotiff' can read" in images.failures[0].reason


def test_no_projection_and_several_pages_are_named(training, tmp_path, caplog):
    page = Image.fromarray(predictor_setup.pixels(40, 50))
    page.save(tmp_path / 'pages.tif', save_all=True, append_images=[page])
    predict.run(options(training, tmp_path / 'pages.tif', tmp_path / 'out'))
    assert 'has 2 pages; the first one is predicted' in caplog.text and 'has no projection' in caplog.text
    with rasters.opened(str(tmp_path / 'out' / 'geotiff' / 'pages.tif')) as raster:
        assert raster.crs is None and raster.shape == (40, 50)


def test_what_rasters_are_refused_with(training, area, tmp_path):
    usual = options(training, area, tmp_path / 'out')
    resized = dataclasses.replace(usual.predictor, resize=ResizeOptions(min_value=33, max_value=65))
    with pytest.raises(OptionError, match='resizes its images. Train it without resizing'):
        predict.run(dataclasses.replace(usual, predictor=resized))
    export = types.SimpleNamespace(window=(9, 9), decoder=None, resizes=True)
    with pytest.raises(OptionError, match='Export it without min_value and max_value, or pass its checkpoint'):
        raster_prediction.run(export, [], dataclasses.replace(usual, checkpoint_dir=None, export_path='a.pb'))
    decoder = types.SimpleNamespace(options=ModelOptions({}, task='depth'))
    of_depth = types.SimpleNamespace(window=(9, 9), decoder=decoder)
    with pytest.raises(OptionError, match='a network that predicts a class for each pixel'):
        raster_prediction.run(of_depth, [], usual)
    with pytest.raises(OptionError, match='no other kinds than geojson beside'):
        dataclasses.replace(usual, save=('geotiff', 'mask'))
    with pytest.raises(OptionError, match='is for TIFF files'):
        dataclasses.replace(usual, save=None, raster=RasterOptions((1, 2)))
    drawn_rasters.write(tmp_path / 'out' / 'geotiff' / 'area.tif', np.ones((1, 9, 9), np.uint8))
    with pytest.raises(OptionError, match='exists and was not written by predict'):
        predict.run(usual)
