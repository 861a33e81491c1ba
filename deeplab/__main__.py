"""`python -m deeplab` is the `deeplab` command."""

import sys

from deeplab import start

if __name__ == '__main__':
    sys.exit(start.main(sys.argv[1:]))
