"""Builds and installs the package; all of its settings that are not tool settings stand here."""

import pathlib
import re

import setuptools

ROOT = pathlib.Path(__file__).parent
VERSION = re.search(r"__version__ = '(.+)'", (ROOT / 'deeplab/__init__.py').read_text()).group(1)

setuptools.setup(
    name='deeplab-toolkit',
    version=VERSION,
    description='Semantic segmentation with DeepLab v3 and v3+ on TensorFlow 2',
    long_description=(ROOT / 'README.md').read_text(),
    long_description_content_type='text/markdown',
    license='Apache-2.0',
    python_requires='>=3.11',
    packages=setuptools.find_namespace_packages(include=['deeplab', 'deeplab.*']),
    package_data={'deeplab': ['**/*.json', 'reporting/page/*', 'pictures/page/*', 'checks/page/*']},
    install_requires=[
        'absl-py>=2.0',
        'google-crc32c>=1.5',
        'numpy>=1.26',
        'pillow>=11.2',
        'pyyaml>=6.0',
        'tensorflow>=2.21,<2.22',
        'tf-slim>=1.1,<1.2',
        'tqdm>=4.66',
    ],
    extras_require={
        'cuda': ['tensorflow[and-cuda]>=2.21,<2.22'],
        'openvino': ['openvino>=2025.0,<2027'],
        'nncf': ['nncf>=2.14,<4', 'openvino>=2025.0,<2027'],
        'onnx': ['onnx>=1.17,<2', 'onnxruntime>=1.20,<2', 'tf2onnx>=1.17,<2'],
        'onnxruntime': ['onnx>=1.17,<2', 'onnxruntime>=1.20,<2', 'tf2onnx>=1.17,<2'],
        'tflite': ['ai-edge-litert>=1.3,<3'],
        'annotation_tools': [  # whose libraries read in a slow test what predict writes
            *('datumaro>=1.13,<2', 'label-studio-converter>=0.0.59,<1', 'labelme>=6.0,<8', 'pycocotools>=2.0.7,<3'),
        ],
        'beam': ['apache-beam>=2.77,<3'],
        'coco': ['pycocotools>=2.0.7,<3'],
        'yaml': [],  # pyyaml is always installed now; older installation commands name this extra
        'video': ['imageio[ffmpeg]>=2.31'],
        'tensorboard': ['tensorboard>=2.19'],
        'remote': ['aiohttp>=3.9,<4', 'fsspec>=2024.2,<2028', 's3fs>=2024.2,<2028'],
        'geo': ['rasterio>=1.4,<2'],
        'report': ['vl-convert-python>=1.7,<2'],
        'docs': ['mkdocs>=1.6,<2', 'mkdocs-material>=9.5,<10', 'mkdocstrings[python]>=1.0,<2', 'ruff>=0.6'],
        'test': [
            *('aiohttp>=3.9,<4', 'fsspec>=2024.2,<2028', 'pycocotools>=2.0.7,<3'),
            *('pytest>=8.0', 'pytest-xdist>=3.5', 'scikit-learn>=1.4'),
        ],
        'dev': [
            'flask-cors>=4.0',
            'mlflow-skinny>=3.1',
            'moto[s3]>=5.0',
            'mypy>=1.11',
            'pytest>=8.0',
            'pytest-xdist>=3.5',
            'ruff>=0.6',
            'selenium>=4.20',
        ],
    },
    entry_points={'console_scripts': ['deeplab = deeplab.start:main']},
)
