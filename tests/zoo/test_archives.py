"""Unpacking of good and of hostile archives."""

import gzip
import io
import os
import tarfile

import pytest

from deeplab.errors import DownloadError
from deeplab.zoo import archives


def packed(path, *members):
    """Writes an archive of (name, content) or TarInfo."""
    with tarfile.open(path, 'w:gz', compresslevel=1) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return str(path)


def _special(kind, name='model/link', target='/etc/passwd'):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_files_and_folders(tmp_path):
    archive = packed(
        tmp_path / 'a.tar.gz', _special(tarfile.DIRTYPE, './model'), ('./model/one', b'1' * 2048), ('model/two/x', b'')
    )
    archives.unpack(archive, str(tmp_path / 'out'))
    assert (tmp_path / 'out/model/one').read_bytes() == b'1' * 2048
    assert (tmp_path / 'out/model/two/x').read_bytes() == b''


@pytest.mark.parametrize(
    ('member', 'reason'),
    [
        (('../evil', b'x'), r"'\.\./evil' is not a path inside"),
        (('model/../../evil', b'x'), 'not a path inside'),
        (('/evil', b'x'), 'not a path inside'),
        (('C:\\evil', b'x'), 'not a path inside'),
        (('a\nb', b'x'), r"'a\\nb' is not a path"),
        (('.', b'x'), 'not a path inside'),
        (('model', b'x'), "has 'model' twice"),
        (('model/x', b'x'), "has 'model/x' twice, or as file and as folder"),
        (_special(tarfile.DIRTYPE, 'model'), "has 'model' twice, or as file and as folder"),
        (('n' * 300, b'x'), 'the name .* is too long'),
        (_special(tarfile.SYMTYPE), 'a link, device'),
        (_special(tarfile.LNKTYPE), 'a link, device'),
        (_special(tarfile.FIFOTYPE), 'a link, device'),
        (_special(tarfile.CHRTYPE), 'a link, device'),
    ],
)
def test_what_is_refused(tmp_path, member, reason):
    archive = packed(tmp_path / 'a.tar.gz', ('model', b'good'), member)
    with pytest.raises(DownloadError, match=f'(?s)is not unpacked: .*{reason}'):
        archives.unpack(archive, str(tmp_path / 'in' / 'out'))
    assert sorted(os.listdir(tmp_path)) == ['a.tar.gz', 'in']
    assert os.listdir(tmp_path / 'in') == ['out']


def test_a_bomb_is_refused_with_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, '_NO_BOMB', 1 << 20)
    archive = packed(tmp_path / 'a.tar.gz', ('model', bytes(3 << 20)))
    with pytest.raises(DownloadError, match=f'its {os.path.getsize(archive):,} bytes unpack to at least 3,145,728'):
        archives.unpack(archive, str(tmp_path / 'out'))
    assert os.listdir(tmp_path / 'out') == []


def test_too_many_files(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, 'MOST_FILES', 3)
    archive = packed(tmp_path / 'a.tar.gz', *((f'{i}', b'') for i in range(4)))
    with pytest.raises(DownloadError, match='more than 3 files'):
        archives.unpack(archive, str(tmp_path / 'out'))


@pytest.mark.parametrize('where', ['in a header', 'behind the end'])
def test_a_bomb_outside_of_files(tmp_path, where):
    path = tmp_path / 'a.tar.gz'
    info = tarfile.TarInfo('model')
    if where == 'in a header':
        info.pax_headers = {'comment': 'x' * (3 << 20)}
    packed(path, info)
    if where == 'behind the end':
        path.write_bytes(path.read_bytes() + gzip.compress(bytes(3 << 20)))
    with pytest.raises(DownloadError, match='1,048,576 bytes that belong to no file'):
        archives.unpack(str(path), str(tmp_path / 'out'))


@pytest.mark.parametrize('damage', ['cut', 'flipped', 'no tar', 'no gzip', 'empty', 'header'])
def test_a_damaged_archive(tmp_path, damage):
    path = tmp_path / 'a.tar.gz'
    info = tarfile.TarInfo('header')
    info.pax_headers = {'GNU.sparse.map': 'no,numbers', 'GNU.sparse.size': '1'} if damage == 'header' else {}
    packed(path, ('model', os.urandom(5000)), info)
    content = bytearray(path.read_bytes())
    if damage == 'cut':
        content = content[:-2000]
    elif damage == 'flipped':
        content[-6] ^= 1  # of the checksum
    elif damage == 'no tar':
        content = gzip.compress(b'text' * 1000)
    elif damage != 'header':
        content = b'text' if damage == 'no gzip' else b''
    path.write_bytes(content)
    with pytest.raises(DownloadError, match=r'is damaged or no .tar.gz archive \(.+\)'):
        archives.unpack(str(path), str(tmp_path / 'out'))
