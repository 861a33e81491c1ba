"""Data sets from a server, unpacked and built."""

import dataclasses
import hashlib
import io
import os
import pathlib
import shutil
import tarfile
import zipfile

import pytest

from deeplab.datasets import description_file, descriptor
from deeplab.errors import DownloadError
from deeplab.options import DownloadOptions, FetchOptions
from deeplab.programs import download
from deeplab.zoo import archives, catalog
from tests.helpers import dataset_files
from tests.helpers.web_server import Page


def _content(name):
    """The files of a tiny data set, by path in its archive."""
    root = catalog.all_data_sets()[name].root
    if name == 'voc2012':
        found = {f'ImageSets/Segmentation/{split}.txt': text for split, text in (('train', b'a\nb\n'), ('val', b'c\n'))}
        for seed, stem in enumerate('abc'):
            found[f'JPEGImages/{stem}.jpg'] = dataset_files.jpeg(dataset_files.pixels(seed=seed))
            found[f'SegmentationClass/{stem}.png'] = dataset_files.palette_png(dataset_files.ids(seed=seed))
    elif name == 'ade20k':
        found = {}
        for seed, split in enumerate(('training', 'validation')):
            found[f'images/{split}/x{seed}.jpg'] = dataset_files.jpeg(dataset_files.pixels(seed=seed))
            found[f'annotations/{split}/x{seed}.png'] = dataset_files.png(dataset_files.ids(seed=seed))
    else:
        found = {}
        for seed, split in enumerate(('train', 'val', 'test')):
            found[f'{split}/0{seed}.png'] = dataset_files.png(dataset_files.pixels(seed=seed))
            found[f'{split}annot/0{seed}.png'] = dataset_files.png(dataset_files.ids(seed=seed))
    return {f'{root}/{path}': content for path, content in found.items()}


def _archive(name, more=()):
    """The bytes of the archive of a tiny data set, of the kind in which it was published."""
    stream = io.BytesIO()
    content = {**_content(name), **dict(more)}
    if catalog.all_data_sets()[name].archive.endswith('.zip'):
        with zipfile.ZipFile(stream, 'w') as archive:
            for path, data in content.items():
                archive.writestr(path, data)
    else:
        with tarfile.open(fileobj=stream, mode='w') as archive:
            for path, data in content.items():
                info = tarfile.TarInfo(path)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


@pytest.fixture
def served(web, tmp_path, monkeypatch):
    """Serves the archive of a data set, with size and checksum as if they were published; gives (page, options)."""
    pages, address = web
    pages.clear()

    def serve(name, **changes):
        body = _archive(name)
        known = catalog.all_data_sets()
        facts = known[name]
        if facts.checksum:
            kind = facts.checksum.partition(':')[0]
            facts = dataclasses.replace(facts, checksum=f'{kind}:{hashlib.new(kind, body).hexdigest()}')
        facts = dataclasses.replace(facts, size=facts.size and len(body))
        monkeypatch.setattr(catalog, 'all_data_sets', lambda: {**known, name: facts})
        page = pages[f'/{facts.archive}'] = Page(body, **changes)
        return page, DownloadOptions(name, FetchOptions(address, str(tmp_path / 'cache')))

    return serve


@pytest.mark.parametrize(
    ('name', 'images', 'known'),
    [
        ('voc2012', {'train': 2, 'val': 1}, None),
        ('ade20k', {'train': 1, 'val': 1}, 'ade20k'),
        ('camvid', {'train': 1, 'val': 1, 'test': 1}, 'camvid'),
    ],
)
def test_a_data_set_is_downloaded_once_and_built(served, name, images, known):
    page, options = served(name, cut_after=(1000,))  # it is continued
    result = download.run(options)
    assert [request.get('Range') for request in page.requests] == [None, 'bytes=1000-']
    folder = pathlib.Path(options.fetch.cache_dir) / f'data_{name}'
    assert result.records == str(folder / 'tfrecord') and result.report.endswith(f'records: {folder / "tfrecord"}')
    facts = description_file.split_facts(f'{folder}/tfrecord/dataset.yaml')
    assert {split: fact.images for split, fact in facts.items()} == images
    if known:
        assert descriptor.load(description_file.beside(result.records)).name == known
    assert sorted(os.listdir(folder.parent)) == [f'data_{name}', f'data_{name}.json']
    assert download.run(options).records == result.records
    assert len(page.requests) == 2
    plan = download.run(dataclasses.replace(options, dry_run=True, output_dir='there')).report
    assert 'is in the cache' in plan and plan.endswith('built in there')


def test_images_that_were_removed_are_downloaded_again_beside_the_records(served):
    page, options = served('camvid')
    download.run(options)
    folder = pathlib.Path(options.fetch.cache_dir) / 'data_camvid'
    shutil.rmtree(folder / catalog.all_data_sets()['camvid'].root)
    (folder / 'tfrecord' / 'own.txt').write_text('stays')
    assert download.run(options).records and len(page.requests) == 2
    assert (folder / 'tfrecord' / 'own.txt').read_text() == 'stays'
    assert sorted(os.listdir(folder.parent)) == ['data_camvid', 'data_camvid.json']


def test_another_file_than_the_published_one_is_refused(served):
    page, options = served('voc2012')
    page.body = _archive('voc2012', [('VOCdevkit/more', b'')])
    with pytest.raises(DownloadError, match=r'was published with [\d,]+ bytes and md5 .* It was removed: run '):
        download.run(options)
    assert os.listdir(options.fetch.cache_dir) == []


def test_without_a_published_checksum_the_first_one_is_noted(served, tmp_path):
    page, options = served('camvid')
    download.run(options)
    os.rename(tmp_path / 'cache' / 'data_camvid', tmp_path / 'away')
    page.body = _archive('camvid', [('more', b'')])
    with pytest.raises(DownloadError, match='at the first download it had'):
        download.run(options)


def test_offline_it_says_what_to_fetch_and_takes_it(served, tmp_path):
    page, options = served('ade20k')
    offline = dataclasses.replace(options, fetch=FetchOptions('http://127.0.0.1:1', options.fetch.cache_dir))
    archive = tmp_path / 'cache' / 'ADEChallengeData2016.zip'
    with pytest.raises(DownloadError, match=f'put it, not unpacked, at {archive}'):
        download.run(offline)
    archive.write_bytes(page.body)
    assert download.run(offline).records
    assert archive.exists()  # it is the user's


def test_a_damaged_archive_is_removed_unless_it_is_the_user_s(served, tmp_path):
    page, options = served('camvid')
    good = page.body
    page.body = good.replace(b'PNG', b'???')
    with pytest.raises(
        DownloadError, match=r"is damaged at '.*' \(Bad CRC-32 .*It was removed: run the same command again\.$"
    ):
        download.run(options)
    assert os.listdir(tmp_path / 'cache') == []
    archive = tmp_path / 'cache' / catalog.all_data_sets()['camvid'].archive
    archive.write_bytes(page.body)
    with pytest.raises(DownloadError, match=r'is damaged .*put there by hand, so it stays: replace it, or remove it'):
        download.run(options)
    assert archive.exists() and len(page.requests) == 1
    archive.unlink()
    page.body = good
    assert download.run(options).records


def test_cityscapes_has_to_be_fetched_by_hand():
    text = download.run(DownloadOptions('cityscapes')).report
    assert 'gtFine_trainvaltest.zip' in text and 'build_cityscapes_data' in text
    listed = download.run(DownloadOptions()).report
    assert all(f'\n{name} ' in listed for name in catalog.all_data_sets())


@pytest.mark.parametrize(
    ('member', 'reason'),
    [
        ('../evil', 'not a path inside'),
        ('/evil', 'not a path inside'),
        ('a\\b', 'not a path inside'),
        ('link', 'a link'),
    ],
)
def test_hostile_zip_archives_are_refused(tmp_path, member, reason):
    path = tmp_path / 'a.zip'
    with zipfile.ZipFile(path, 'w') as archive:
        info = zipfile.ZipInfo(member)
        if member == 'link':
            info.external_attr = 0o120777 << 16
        archive.writestr(info, b'/etc/passwd')
    with pytest.raises(DownloadError, match=reason):
        archives.unpack(str(path), str(tmp_path / 'in' / 'out'))
    assert not (tmp_path / 'in' / 'evil').exists() and not os.listdir(tmp_path / 'in' / 'out')


def test_damaged_and_exploding_zip_archives(tmp_path, monkeypatch):
    path = tmp_path / 'a.zip'
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as archive:
        archive.writestr('zeros', bytes(1 << 20))
    monkeypatch.setattr(archives, '_NO_BOMB', 1 << 10)
    with pytest.raises(DownloadError, match='unpack to at least 1,048,576'):
        archives.unpack(str(path), str(tmp_path / 'out'))
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(DownloadError, match=r'is damaged or no \.zip archive'):
        archives.unpack(str(path), str(tmp_path / 'out'))
