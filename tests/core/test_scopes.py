"""Selection of variables by scope, and maps between variable names."""

import pytest

from deeplab.core import scopes
from deeplab.errors import CheckpointError, OptionError

NAMES = ['net/block1/weights', 'net/block1/biases', 'net/block10/weights', 'aspp0/weights', 'logits/semantic/weights']


class TestKnownScopes:
    def test_the_beginning_of_a_name_is_enough(self):
        scopes.require_all_known(['aspp', 'net/block1/', 'logits/semantic/weights'], NAMES, 'trainable_scopes')

    def test_an_unknown_scope_names_the_outermost(self):
        with pytest.raises(OptionError) as error:
            scopes.require_all_known(['logits', 'head'], NAMES, 'trainable_scopes')
        assert str(error.value) == (
            "trainable_scopes: no variable of this network begins with 'head'. Existing scopes: aspp0, logits, net"
        )

    @pytest.mark.parametrize('wanted', ['net/blok1', 'net/blok1/weights', 'net/x/y/z'])
    def test_an_unknown_scope_within_a_known_one_names_what_is_there(self, wanted):
        assert scopes.scopes_near(NAMES, wanted) == 'net/block1, net/block10'

    def test_long_lists_are_cut(self):
        names = [f'scope_{i:02}/weights' for i in range(50)]
        assert scopes.scopes_near(names, 'x').endswith('scope_19 and 30 more')


class TestReadingMaps:
    def test_on_the_line(self):
        assert scopes.read_rename_map('model/=, head = logits/semantic') == (
            ('model/', ''),
            ('head', 'logits/semantic'),
        )

    @pytest.mark.parametrize(('name', 'content'), [('a.json', '{"a": "b", "c/": ""}'), ('a.yaml', 'a: b\nc/: ""\n')])
    def test_files(self, tmp_path, name, content):
        (tmp_path / name).write_text(content)
        assert scopes.read_rename_map(str(tmp_path / name)) == (('a', 'b'), ('c/', ''))

    @pytest.mark.parametrize('text', ['a', 'a=b,c', 'a=b=c', '=', 'a=b,'])
    def test_no_map(self, text):
        with pytest.raises(OptionError, match='is not an entry. Write old_prefix=new_prefix'):
            scopes.read_rename_map(text)

    @pytest.mark.parametrize('content', ['[]', '{}', '["a"]', '{"a": 1}', '{"a": {"b": "c"}}', '3'])
    def test_json_of_something_else(self, tmp_path, content):
        (tmp_path / 'a.json').write_text(content)
        with pytest.raises(OptionError, match='must contain one object'):
            scopes.read_rename_map(str(tmp_path / 'a.json'))

    @pytest.mark.parametrize(('name', 'content'), [('a.json', '{"a"'), ('a.yml', 'a: [')])
    def test_files_that_are_broken(self, tmp_path, name, content):
        (tmp_path / name).write_text(content)
        with pytest.raises(OptionError, match=rf"'.*{name}' is not (JSON|YAML): "):
            scopes.read_rename_map(str(tmp_path / name))

    def test_no_file(self):
        with pytest.raises(OptionError, match="the file 'nowhere.json' does not exist"):
            scopes.read_rename_map('nowhere.json')

    def test_an_entry_twice(self, tmp_path):
        (tmp_path / 'a.json').write_text('{"a": "b", "a": "c"}')
        for text in ('a=b,a=c', str(tmp_path / 'a.json')):
            with pytest.raises(OptionError, match="'a' appears twice"):
                scopes.read_rename_map(text)


class TestRenaming:
    def test_the_longest_beginning_counts_and_the_rest_stays(self):
        rename_map = (('net/', 'backbone/'), ('net/block1/', 'first/'), ('aspp0/weights', 'head'))
        assert scopes.rename(NAMES, rename_map, 'model.ckpt') == {
            'first/weights': 'net/block1/weights',
            'first/biases': 'net/block1/biases',
            'backbone/block10/weights': 'net/block10/weights',
            'head': 'aspp0/weights',
            'logits/semantic/weights': 'logits/semantic/weights',
        }

    def test_a_scope_is_put_before_all(self):
        renamed = scopes.rename(NAMES, (('', 'teacher/'),), 'model.ckpt')
        assert renamed == {f'teacher/{name}': name for name in NAMES}

    def test_two_names_may_change_places(self):
        assert scopes.rename(['a', 'b'], (('a', 'b'), ('b', 'a')), 'model.ckpt') == {'b': 'a', 'a': 'b'}

    def test_an_entry_that_fits_nothing(self):
        with pytest.raises(CheckpointError) as error:
            scopes.rename(NAMES, (('net/', ''), ('net/block2', 'x')), 'model.ckpt')
        assert str(error.value) == (
            "rename_map: 'net/block2=x' matches nothing: no variable of the checkpoint 'model.ckpt' begins with "
            "'net/block2'. Existing scopes: net/block1, net/block10"
        )

    @pytest.mark.parametrize('rename_map', [(('a/', 'c/'), ('b/', 'c/')), (('a/', 'b/'),)])
    def test_two_that_become_one(self, rename_map):
        with pytest.raises(
            CheckpointError, match=r"'a/w' and 'b/w' of the checkpoint 'model.ckpt' would both become '"
        ):
            scopes.rename(['a/w', 'b/w'], rename_map, 'model.ckpt')
