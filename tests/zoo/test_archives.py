"""Unpacking of good and of hostile archives."""

import errno
import functools
import gzip
import io
import os
import tarfile
import zipfile

import pytest

from deeplab.errors import DownloadError
from deeplab.zoo import archives
from tests.helpers.damage import damaged


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


def test_too_many_files(tmp_path):
    archive = packed(tmp_path / 'a.tar.gz', *((f'{i}', b'') for i in range(4)))
    with pytest.raises(DownloadError, match='more than 3 files'):
        archives.unpack(archive, str(tmp_path / 'out'), most_files=3)


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


MESSAGES = {
    'flipped': r'is damaged behind the last file \(CRC check failed',
    'header': r"is damaged behind 'model' \(.*'no'",
}


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
    with pytest.raises(
        archives.DamagedArchiveError, match=MESSAGES.get(damage, r'is damaged or no \.tar\.gz archive \(.+\)')
    ):
        archives.unpack(str(path), str(tmp_path / 'out'))


def _tar(path, kind):
    with tarfile.open(path, 'w', format=kind) as archive:
        for number in range(3):
            info = tarfile.TarInfo(f'model/{"long" * 30}{number}')
            info.size, info.mtime = 700, 1.5
            archive.addfile(info, io.BytesIO(os.urandom(700)))


def _zip(path, kind):
    with zipfile.ZipFile(path, 'w', kind) as archive:
        archive.writestr('model/', b'')
        for number in range(3):
            archive.writestr(f'model/{number}', bytes(range(200)) * 3)


KINDS = {
    'stored.zip': functools.partial(_zip, kind=zipfile.ZIP_STORED),
    'deflated.zip': functools.partial(_zip, kind=zipfile.ZIP_DEFLATED),
    'bzip2.zip': functools.partial(_zip, kind=zipfile.ZIP_BZIP2),
    'lzma.zip': functools.partial(_zip, kind=zipfile.ZIP_LZMA),
    'pax.tar': functools.partial(_tar, kind=tarfile.PAX_FORMAT),
    'gnu.tar': functools.partial(_tar, kind=tarfile.GNU_FORMAT),
    'a.tar.gz': lambda path: packed(path, ('model/a', os.urandom(700)), ('model/b', os.urandom(700))),
}


@pytest.mark.filterwarnings('ignore::ResourceWarning')  # of zipfile, which leaves a file open
@pytest.mark.parametrize('name', KINDS)
def test_whatever_is_damaged_is_unpacked_or_refused(tmp_path, name):
    path = tmp_path / name
    KINDS[name](path)
    refused = 0
    for number, content in enumerate(damaged(path.read_bytes(), 150)):
        path.write_bytes(content)
        try:
            archives.unpack(str(path), str(tmp_path / f'out{number}'))
        except DownloadError as error:
            assert 'is damaged' in str(error) or 'is not unpacked' in str(error)
            refused += 1
    assert refused > 40


@pytest.mark.parametrize('kind', [tarfile.REGTYPE, tarfile.DIRTYPE])
def test_folders_that_are_too_deep_are_refused(tmp_path, kind):
    name = '/'.join(['d'] * 2000)
    archive = packed(tmp_path / 'a.tar.gz', _special(kind, name))
    with pytest.raises(DownloadError, match='lies in more than 50 folders'):
        archives.unpack(archive, str(tmp_path / 'out'))
    with zipfile.ZipFile(tmp_path / 'a.zip', 'w') as content:
        content.writestr(name + '/' * (kind == tarfile.DIRTYPE), b'')
    with pytest.raises(DownloadError, match='lies in more than 50 folders'):
        archives.unpack(str(tmp_path / 'a.zip'), str(tmp_path / 'out'))


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / 'a.zip'
    _zip(path, zipfile.ZIP_STORED)
    content = bytearray(path.read_bytes())
    content[content.index(b'model/1') + 20] ^= 1
    path.write_bytes(content)
    with pytest.raises(archives.DamagedArchiveError, match=r"a.zip is damaged at 'model/1' \(Bad CRC-32"):
        archives.unpack(str(path), str(tmp_path / 'out'))


def test_a_disk_that_is_full_is_no_damage(tmp_path, monkeypatch):
    path = tmp_path / 'a.zip'
    _zip(path, zipfile.ZIP_STORED)

    class Full(io.BytesIO):
        def write(self, _):
            raise OSError(errno.ENOSPC, 'No space left on device')

    monkeypatch.setattr(archives, 'open', lambda *_: Full(), raising=False)
    with pytest.raises(OSError, match='No space left'):
        archives.unpack(str(path), str(tmp_path / 'out'))
