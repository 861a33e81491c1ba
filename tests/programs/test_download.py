"""`deeplab download`: the list, the plan and the report."""

import pathlib

import pytest

from deeplab import cli
from deeplab.options import DownloadOptions, FetchOptions
from deeplab.programs import download
from deeplab.zoo import catalog
from tests.helpers import web_server
from tests.zoo.test_archives import packed
from tests.zoo.test_fetching import FILES, NAME, PRESET


def test_the_list_names_all(tmp_path, capsys):
    (tmp_path / PRESET.folder).mkdir()
    assert cli.main(['download', f'--cache_dir={tmp_path}']) == 0
    lines = capsys.readouterr().out.splitlines()
    for preset in catalog.all_presets().values():
        assert sum(line.startswith(f'{preset.name} ') for line in lines) == 1
    (row,) = [line for line in lines if line.startswith(f'{NAME} ')]
    assert row.split() == [NAME, 'pascal_voc_seg', '23', '77.33', 'val', 'yes']
    assert lines[-1].endswith(f'{tmp_path}.')


def test_a_plan_changes_nothing(tmp_path):
    fetch = FetchOptions('http://127.0.0.1:1', str(tmp_path / 'cache'))
    report = download.run(DownloadOptions(NAME, fetch, dry_run=True)).report
    assert f'downloaded from http://127.0.0.1:1/{PRESET.archive} (23 MB) to {tmp_path / "cache"}' in report
    assert not list(tmp_path.iterdir())
    folder = tmp_path / 'cache' / PRESET.folder
    folder.mkdir(parents=True)
    assert f'{NAME} is in the cache: {folder}' in download.run(DownloadOptions(NAME, fetch, dry_run=True)).report


def test_a_download_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv('no_proxy', '127.0.0.1')
    body = pathlib.Path(packed(tmp_path / 'a.tar.gz', *FILES)).read_bytes()
    with web_server.serving({f'/{PRESET.archive}': web_server.Page(body)}) as address:
        words = ['download', NAME, f'--mirror={address}', f'--cache_dir={tmp_path / "cache"}']
        assert cli.main(words) == 0
        first = capsys.readouterr()
        assert cli.main(words) == 0
    checkpoint = tmp_path / 'cache' / PRESET.folder / 'deeplabv3_mnv2' / 'model.ckpt-30000'
    assert first.out.splitlines()[0] == f'{NAME}: unpacked'
    assert first.out.splitlines()[-1] == f'checkpoint: {checkpoint}'
    assert f'{len(body):,} bytes, SHA-256 ' in first.out
    assert capsys.readouterr().out.startswith(f'{NAME}: in the cache, unchanged\n')
    assert f'Downloading {address}/{PRESET.archive} (23 MB)' in first.err


@pytest.mark.parametrize(
    ('words', 'status'),
    [(['no_such'], 1), (['--mirror=ftp://host', NAME], 1), (['a', 'b'], 2), ([NAME, '--output_dir=here'], 1)],
)
def test_errors(words, status, capsys, tmp_path):
    assert cli.main(['download', *words, f'--cache_dir={tmp_path}']) == status
    error = capsys.readouterr().err
    assert error.startswith('deeplab download: error: ')
    assert words != ['no_such'] or 'voc2012, ade20k' in error
    assert '--output_dir=here' not in words or ('--output_dir=here' in error and '--cache_dir' in error)
