# SPDX-License-Identifier: Apache-2.0
"""``python -m fusednorm``: profile, bench, report and blocks."""

import sys

from fusednorm.measure.command import main

sys.exit(main(sys.argv[1:]))
