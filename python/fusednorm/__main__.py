"""``python -m fusednorm``: profile, bench and report."""

import sys

from fusednorm.measure.command import main

sys.exit(main(sys.argv[1:]))
