"""Records from TIFF and GeoTIFF files. Covers datasets/rasters.py and options/rasters.py."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from PIL import Image

rasterio = pytest.importorskip('rasterio', reason='the package rasterio is not installed')

from deeplab.datasets import (  # noqa: E402
    build_folder_data,
    descriptor,
    images,
    pair_records,
    pairs,
    raster_tiles,
    rasters,
    record_index,
    segmentation_dataset,
)
from deeplab.errors import DataError, OptionError, UnreadableFileError  # noqa: E402
from deeplab.options import BuildFolderOptions, DoctorOptions, RasterOptions  # noqa: E402
from deeplab.programs import doctor  # noqa: E402
from tests.helpers import drawn_rasters  # noqa: E402


def options_of(folder, **changes):
    usual = {
        'image_folder': str(folder / 'images'),
        'mask_folder': str(folder / 'masks'),
        'output_dir': str(folder / 'records'),
        'tile_size': (64, 64),
    }
    return BuildFolderOptions(**(usual | changes))


def refusal(options) -> str:
    with pytest.raises((DataError, OptionError)) as caught:
        build_folder_data.run(options)
    assert '\n' not in str(caught.value)
    return str(caught.value)


def test_tiles_cover_every_pixel_and_overlap():
    covered = np.zeros((150, 100), int)
    for place in rasters.places(covered.shape, (64, 64), 16):
        assert (place.height, place.width) == (64, 64)
        covered[place.top : place.top + 64, place.left : place.left + 64] += 1
    assert covered.min() == 1 and covered.max() > 1
    assert rasters.places((30, 40), (64, 64)) == [rasters.Place(0, 0, 30, 40)]


def test_tiles_of_a_raster_hold_its_pixels_and_ids_and_ignore_what_has_no_data(tmp_path):
    image, mask = drawn_rasters.pair(tmp_path, 'area', 256, 256)
    with rasterio.open(image) as raster:
        values = raster.read()
    with rasterio.open(mask) as raster:
        classes = raster.read(1)
    splits = raster_tiles.items(options_of(tmp_path, tile_overlap=16, raster=RasterOptions((4, 1))), None)
    assert {*splits} == {'train', 'val'}
    lowest = max(tile.embedded.place.top + 64 for tile in splits['train'])
    assert lowest <= min(tile.embedded.place.top for tile in splits['val'])
    for tile in [*splits['train'], *splits['val']]:
        place = tile.embedded.place
        rows, columns = slice(place.top, place.top + 64), slice(place.left, place.left + 64)
        np.testing.assert_array_equal(
            images.read_array(tile.image_contents()), np.moveaxis(values[[3, 0], rows, columns], 0, -1)
        )
        expected = np.where(values[0, rows, columns] == 0, 255, classes[rows, columns])
        np.testing.assert_array_equal(images.read_ids(tile.source.masks(tile.label).classes), expected)
        assert (expected != 255).any()
    assert not [tile for tile in splits['train'] if tile.embedded.place[:2] == (0, 0)]  # without data


def test_builder_writes_the_bands_and_keeps_rasters_in_one_split(tmp_path):
    for number in range(3):
        drawn_rasters.pair(tmp_path, f'area{number}', 130, 130, number)
    options = options_of(tmp_path, val_fraction=0.3)
    written = build_folder_data.run(options)
    assert {name: split['images'] for name, split in written['splits'].items()} == {'train': 18, 'val': 9}
    described = descriptor.load(str(tmp_path / 'records' / 'dataset.yaml'))
    assert (described.image_channels, described.image_bits, described.num_classes) == (4, 16, 3)


def test_shards_are_made_again_after_the_bands_change(tmp_path):
    drawn_rasters.pair(tmp_path, 'area', 130, 130)
    build_folder_data.run(options_of(tmp_path, val_fraction=0.0))
    build_folder_data.run(options_of(tmp_path, val_fraction=0.0, raster=RasterOptions((1, 2))))
    described = descriptor.load(str(tmp_path / 'records' / 'dataset.yaml'))
    assert (described.image_channels, described.raster) == (2, RasterOptions((1, 2)))
    assert descriptor.of_json(described.as_json(), 3).raster == RasterOptions((1, 2))  # as in run.json


def test_whole_tiffs_without_projection_become_records(tmp_path):
    values = np.arange(5 * 20 * 30, dtype=np.uint8).reshape(5, 20, 30)
    for name in ('a', 'b'):
        drawn_rasters.write(tmp_path / 'images' / f'{name}.tif', values, crs=None, transform=None)
        drawn_rasters.write(tmp_path / 'masks' / f'{name}.tif', values[:1] % 3, crs=None, transform=None)
    items = raster_tiles.items(options_of(tmp_path, tile_size=None, val_fraction=0.0), None)['train']
    np.testing.assert_array_equal(images.read_array(items[0].image_contents()), np.moveaxis(values, 0, -1))
    assert pairs.read(items[0], None).counts[:3].sum() == 600


def test_an_overlap_needs_tiles(tmp_path):
    with pytest.raises(OptionError, match='tile_overlap=8 is not allowed: also set tile_size'):
        options_of(tmp_path, tile_size=None, tile_overlap=8)


def test_options_of_rasters_without_a_raster(tmp_path):
    with pytest.raises(OptionError, match='tile_size=.* is for folders of masks'):
        BuildFolderOptions(annotations='coco.json', tile_size=(64, 64))
    with pytest.raises(OptionError, match='bands=.* not for annotations'):
        BuildFolderOptions(annotations='coco.json', raster=RasterOptions(bands=(1, 2)))
    for folder in ('images', 'masks'):
        (tmp_path / folder).mkdir()
        for name in 'ab':
            pixels = np.zeros((20, 20), np.uint8) if folder == 'masks' else np.zeros((20, 20, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / folder / f'{name}.png')
    with pytest.raises(DataError, match='bands=.* is for TIFF files, and no image in'):
        raster_tiles.items(options_of(tmp_path, tile_size=None, tile_overlap=0, raster=RasterOptions(bands=(1,))), None)


def test_floats_are_scaled_to_their_range(tmp_path):
    values = np.array([[[-1.0, 0.0, 0.5], [1.0, 2.0, np.nan]]], np.float32)
    path = str(drawn_rasters.write(tmp_path / 'height.tif', values))
    pixels, is_valid = rasters.read(path, rasters.Place(0, 0, 2, 3), RasterOptions(value_range=(0, 1)))
    np.testing.assert_array_equal(pixels[..., 0], [[0, 0, 32768], [65535, 65535, 0]])
    np.testing.assert_array_equal(is_valid, [[True, True, True], [True, True, False]])
    with pytest.raises(DataError, match='float32.*value_range'):
        rasters.read_header(path)


def test_tiles_of_nothing_but_nan_are_left_out(tmp_path):
    values = np.full((2, 128, 64), np.nan, np.float32)
    values[0, 70, 3] = 0.5
    values[1, 3, 3] = 0.5
    path = str(drawn_rasters.write(tmp_path / 'a.tif', values))
    upper, lower = tiles = rasters.places((128, 64), (64, 64))
    assert rasters.with_data(path, tiles, RasterOptions(value_range=(0.0, 1.0))) == tiles
    assert rasters.with_data(path, tiles, RasterOptions((1,), (0.0, 1.0))) == [lower]
    assert rasters.with_data(path, tiles, RasterOptions((2,), (0.0, 1.0))) == [upper]


def test_a_raster_of_floats_is_opened_once_and_hardly_read_to_find_its_data(tmp_path, monkeypatch):
    values = np.ones((1, 128, 128), np.float32)
    values[0, 32:, 64:] = np.nan  # the middle of a tile with data, and a tile without
    path = str(drawn_rasters.write(tmp_path / 'a.tif', values))
    opened, pixels = [], []
    open_quietly, read = rasters.open_quietly, rasterio.DatasetReader.read

    def counted(dataset, bands, window):
        pixels.append(window.width * window.height)
        return read(dataset, bands, window=window)

    monkeypatch.setattr(rasters, 'open_quietly', lambda path: opened.append(path) or open_quietly(path))
    monkeypatch.setattr(rasterio.DatasetReader, 'read', counted)
    tiles = rasters.places((128, 128), (64, 64))
    assert rasters.with_data(path, tiles, RasterOptions(value_range=(0.0, 1.0))) == tiles[:3]
    assert len(opened) == 1
    assert pixels == [16**2, 16**2, 64**2, 16**2, 16**2, 64**2]


@pytest.mark.parametrize(
    ('changes', 'parts'),
    [
        ({'crs': 'EPSG:32634'}, ['EPSG:32634', 'EPSG:32633', 'Warp']),
        ({'transform': rasterio.Affine(1, 0, 7, 0, -1, 0)}, ['transform', 'Warp']),
    ],
)
def test_mask_on_another_grid_is_refused(tmp_path, changes, parts):
    drawn_rasters.pair(tmp_path, 'area', 130, 130)
    drawn_rasters.write(tmp_path / 'masks' / 'area.tif', drawn_rasters.ids(130, 130)[np.newaxis], **changes)
    message = refusal(options_of(tmp_path))
    assert all(part in message for part in ['area.tif', *parts])


def test_bad_rasters_are_refused_in_one_line(tmp_path):
    image, mask = drawn_rasters.pair(tmp_path, 'area', 130, 130)
    options = options_of(tmp_path)
    assert 'has 4 bands, and no band 5, 9' in refusal(dataclasses.replace(options, raster=RasterOptions((1, 5, 9))))
    drawn_rasters.write(mask, drawn_rasters.ids(130, 120)[np.newaxis])
    assert '130 x 120 pixels (height x width), its image 130 x 130' in refusal(options)
    drawn_rasters.write(mask, np.full((1, 130, 130), 700, np.int16))
    assert 'the value 700' in refusal(options)
    mask.write_bytes(mask.read_bytes()[:100])
    assert 'cannot be read as a TIFF' in refusal(options)
    image.write_bytes(b'text')
    assert 'cannot be read as a TIFF' in refusal(options)


def test_a_raster_that_the_system_cannot_read_is_no_damaged_one(tmp_path):
    image, mask = drawn_rasters.pair(tmp_path, 'area', 64, 64)
    (item,) = raster_tiles.items(options_of(tmp_path, tile_size=None, val_fraction=0.0), None)['train']
    content = item.image_contents()
    for path in (mask, image):
        path.write_bytes(path.read_bytes()[:100])
        with pytest.raises(DataError, match='cannot be read as a TIFF') as damaged:
            pairs.read(item, None, content if path == mask else None)
        path.unlink()
        with pytest.raises(UnreadableFileError, match='No such file') as lost:
            pairs.read(item, None, content if path == mask else None)
        assert str(lost.value).startswith(f"Cannot read '{path}': ") and damaged.type is DataError


def test_several_pages_are_refused(tmp_path):
    from PIL import Image

    _, _ = drawn_rasters.pair(tmp_path, 'area', 130, 130)
    page = Image.fromarray(np.zeros((130, 130), np.uint8))
    page.save(tmp_path / 'images' / 'area.tif', save_all=True, append_images=[page])
    assert 'has 2 pages' in refusal(options_of(tmp_path))


def test_different_projections_are_named_in_a_warning(tmp_path, caplog):
    drawn_rasters.pair(tmp_path, 'one', 130, 130)
    image, mask = drawn_rasters.pair(tmp_path, 'two', 130, 130)
    classes = drawn_rasters.ids(130, 130)
    drawn_rasters.write(image, drawn_rasters.bands(classes), crs='EPSG:32634')
    drawn_rasters.write(mask, classes[np.newaxis], crs='EPSG:32634')
    raster_tiles.items(options_of(tmp_path, val_fraction=0.0), None)
    assert '2 projections' in caplog.text and 'EPSG:32634' in caplog.text


def test_tiles_that_are_cut_when_they_are_read_are_the_records(tmp_path):
    drawn_rasters.pair(tmp_path, 'area', 200, 150)
    build_folder_data.run(options_of(tmp_path, tile_overlap=8, raster=RasterOptions((4, 1, 2))))
    content = {'num_classes': 3, 'image_channels': 3, 'image_bits': 16, 'images': 'images', 'masks': 'masks'}
    content |= {'tile_size': [64, 64], 'tile_overlap': 8, 'bands': [4, 1, 2]}
    (tmp_path / 'dataset.json').write_text(json.dumps(content))
    source = segmentation_dataset.described_folders(str(tmp_path / 'dataset.json'))
    items = segmentation_dataset.folder_items(source, descriptor.load(source.description))
    for split in ('train', 'val'):
        built = record_index.RecordIndex(segmentation_dataset.find_shards(split, str(tmp_path / 'records')))
        cut = pair_records.PairRecords(items[split])
        assert [cut.read(number) for number in range(len(cut))] == [built.read(i) for i in range(len(built))]
    (tmp_path / 'dataset.json').write_text(json.dumps({**content, 'bands': ['red']}))
    with pytest.raises(OptionError, match="'bands' is .*'red'.*a list of whole numbers"):
        segmentation_dataset.described_folders(str(tmp_path / 'dataset.json'))


def test_doctor_reads_folders_of_tiffs(tmp_path):
    values = np.random.default_rng(0).integers(0, 255, (3, 40, 50)).astype(np.uint8)
    for number in range(2):
        drawn_rasters.write(tmp_path / 'images' / f'{number}.tif', values + number)
        drawn_rasters.write(tmp_path / 'masks' / f'{number}.tif', drawn_rasters.ids(40, 50, number)[np.newaxis])
    result = doctor.run(DoctorOptions(str(tmp_path), num_classes=3, output=str(tmp_path / 'findings.json')))
    (split,) = json.loads((tmp_path / 'findings.json').read_text())['splits'].values()
    assert split['images'] == 2 and 'unsupported format' not in result.report


def test_doctor_reads_described_tiffs_although_a_mask_is_missing(tmp_path):
    masks = [drawn_rasters.pair(tmp_path, name, 40, 50, seed)[1] for seed, name in enumerate('abc')]
    masks[1].unlink()
    content = {'num_classes': 3, 'image_bits': 16, 'images': 'images', 'masks': 'masks'}
    (tmp_path / 'dataset.json').write_text(json.dumps(content | {'bands': [4, 1, 2], 'tile_size': [20, 20]}))
    doctor.run(DoctorOptions(str(tmp_path), output=str(tmp_path / 'findings.json')))
    findings = json.loads((tmp_path / 'findings.json').read_text())['findings']
    assert [finding['rule'] for finding in findings if finding['severity'] == 'error'] == ['no_mask']
