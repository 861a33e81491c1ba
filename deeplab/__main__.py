"""`python -m deeplab` is the `deeplab` command."""

import sys

from deeplab import cli

if __name__ == '__main__':
    sys.exit(cli.main(sys.argv[1:]))
