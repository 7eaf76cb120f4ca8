#!/bin/sh
# Makes sure that Chromium and its driver are there, in which the page of the console is tested. Says nothing if they are.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
command -v chromium >/dev/null 2>&1 || "$here/install-package.sh" chromium "Chromium, a browser,"
command -v chromedriver >/dev/null 2>&1 || "$here/install-package.sh" chromium-driver "chromedriver"
