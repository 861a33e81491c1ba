"""The cores that this process may use, and their instruction sets.

Covers system/processors.py, system/packages.py and system/system_files.py.
"""

import pytest

from deeplab.errors import OptionError
from deeplab.system import packages, processors, system_files


@pytest.mark.parametrize(
    ('group', 'files', 'expected'),
    [
        ('0::/\n', {'cpu.max': 'max 100000'}, 8),
        ('0::/\n', {'cpu.max': '250000 100000'}, 3),
        ('0::/a/b\n', {'a/cpu.max': '100000 100000', 'a/b/cpu.max': 'max 100000'}, 1),
        ('4:cpu,cpuacct:/\n', {'cpu/cpu.cfs_quota_us': '200000', 'cpu/cpu.cfs_period_us': '100000'}, 2),
        ('4:cpu:/\n', {'cpu/cpu.cfs_quota_us': '-1', 'cpu/cpu.cfs_period_us': '100000'}, 8),
        ('0::/\n', {'cpu.max': '1000 100000'}, 1),
    ],
)
def test_limits_of_control_groups_count(monkeypatch, tmp_path, group, files, expected):
    (tmp_path / 'proc' / 'self').mkdir(parents=True)
    (tmp_path / 'proc' / 'self' / 'cgroup').write_text(group)
    for name, text in files.items():
        path = tmp_path / 'groups' / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(system_files, 'PROC', tmp_path / 'proc')
    monkeypatch.setattr(system_files, 'CGROUPS', tmp_path / 'groups')
    monkeypatch.setattr('os.sched_getaffinity', lambda process: range(8))
    assert processors.available_cores() == expected


def test_a_missing_package_is_named_with_the_command_that_installs_it():
    packages.require(('json',), '--engine=mine', 'mine')
    with pytest.raises(OptionError, match=r"--engine=mine needs no_such_package.*'deeplab-toolkit\[mine\]'"):
        packages.require(('json', 'no_such_package'), '--engine=mine', "'deeplab-toolkit[mine]'")


def test_the_speed_of_products_is_of_the_fastest(monkeypatch):
    times = iter([0.0, 4.0, 10.0, 12.0, 20.0, 23.0])  # 4, 2 and 3 seconds
    monkeypatch.setattr(processors.time, 'perf_counter', lambda: next(times))
    assert processors.product_speed(side=10) == 2 * 10**3 / 2.0


@pytest.mark.parametrize(
    ('text', 'expected'),
    [('model name\t: A\nflags\t\t: fpu avx512f avx512_bf16\n', {'fpu', 'avx512f', 'avx512_bf16'}), (None, set())],
)
def test_instruction_sets_are_those_of_the_first_core(monkeypatch, tmp_path, text, expected):
    if text is not None:
        (tmp_path / 'cpuinfo').write_text(text)
    monkeypatch.setattr(system_files, 'PROC', tmp_path)
    assert processors.instructions() == expected


@pytest.mark.parametrize(
    ('machine', 'flags', 'expected'),
    [
        ('x86_64', {'avx2', 'avx512f', 'avx512_bf16'}, True),
        ('x86_64', {'avx2', 'avx512_vnni'}, False),
        ('x86_64', {'avx2', 'avx_vnni'}, False),
        ('AMD64', set(), True),  # Windows: not known
        ('aarch64', set(), False),
    ],
)
def test_sums_of_8_bit_products_saturate_on_x86_without_vnni(monkeypatch, machine, flags, expected):
    monkeypatch.setattr(processors.platform, 'machine', lambda: machine)
    monkeypatch.setattr(processors, 'instructions', lambda: frozenset(flags))
    assert processors.saturates_int8() is expected
