# Sourced: bare Debian systems in folders, to try things as on a fresh machine. Needs root.

# The archive that this machine's own apt uses.
mirror() {
  apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
    awk '$1 == "Debian" && $2 !~ /-/ { print $3; exit }'
}

can_make_system() {
  [ "$(id -u)" -eq 0 ] && command -v debootstrap >/dev/null && [ -n "$(mirror)" ]
}

# make_system SUITE FOLDER: a minimal system of the suite; an existing one is kept.
make_system() {
  [ ! -x "$2/usr/bin/apt-get" ] || return 0
  mkdir -p "$2"
  debootstrap --variant=minbase "$1" "$2" "$(mirror)" >"$2.log" 2>&1 || { tail -n 20 "$2.log" >&2; return 1; }
  rm -f "$2.log"
}
