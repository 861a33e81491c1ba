"""Graphs of classifiers without weights."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from deeplab import cli


def graph_of(tmp_path, *words, is_text=False):
    path = tmp_path / 'graph.pb'
    shared = ['--dataset_name=flowers', f'--output_file={path}', '--image_size=32']
    assert cli.main(['export_inference_graph', *shared, *words]) == 0
    definition = tf.compat.v1.GraphDef()
    if is_text:
        text_format.Parse(path.read_text(), definition)
    else:
        definition.ParseFromString(path.read_bytes())
    return {node.name: node for node in definition.node}


@pytest.mark.parametrize(
    ('model', 'output'),
    [
        ('mobilenet_v2_035', 'MobilenetV2/Predictions/Reshape_1'),
        ('resnet_v1_50', 'resnet_v1_50/predictions/Reshape_1'),
        ('cifarnet', 'CifarNet/Predictions/Reshape_1'),
    ],
)
def test_names_of_input_and_output(tmp_path, model, output):
    nodes = graph_of(tmp_path, f'--model_name={model}')
    assert [axis.size for axis in nodes['input'].attr['shape'].shape.dim] == [-1, 32, 32, 3]
    assert output in nodes
    variables = [node for node in nodes.values() if node.op in ('VarHandleOp', 'VariableV2')]
    assert any(node.name.endswith('/weights') for node in variables)
    assert 'FakeQuantWithMinMaxVars' not in {node.op for node in nodes.values()}


def test_the_graph_computes_the_probabilities(tmp_path):
    """It takes preprocessed images, and its variables can be set."""
    nodes = graph_of(tmp_path, '--model_name=lenet', '--batch_size=2', '--use_grayscale')
    definition = tf.compat.v1.GraphDef(node=nodes.values())
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        tf.graph_util.import_graph_def(definition, name='')
        session.run([node.name for node in nodes.values() if node.op in ('AssignVariableOp', 'Assign')])
        (values,) = session.run(
            [graph.get_tensor_by_name('LeNet/Predictions/Reshape_1:0')], {'input:0': np.zeros((2, 32, 32, 1))}
        )
    assert values.shape == (2, 5)
    np.testing.assert_allclose(values.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.slow
def test_text_training_and_8_bits(tmp_path):
    words = [
        '--model_name=mobilenet_v2_035',
        '--write_text_graphdef',
        '--quantize',
        '--is_training',
        '--labels_offset=1',
    ]
    nodes = graph_of(tmp_path, *words, is_text=True)
    assert any(node.op.startswith('FakeQuant') for node in nodes.values())
    shape = nodes['MobilenetV2/Logits/Conv2d_1c_1x1/biases'].attr['shape'].shape
    assert [axis.size for axis in shape.dim] == [4]


def test_a_file_that_cannot_be_written(tmp_path, capsys):
    words = ['--model_name=lenet', '--dataset_name=mnist', f'--output_file={tmp_path}/none/graph.pb']
    assert cli.main(['export_inference_graph', *words]) == 1
    assert f"--output_file: '{tmp_path}/none/graph.pb' cannot be written: " in capsys.readouterr().err
