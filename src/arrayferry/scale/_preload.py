"""What the server that forks workers imports: this package, and the script of the user."""

from arrayferry.scale._script import import_script

import_script()
