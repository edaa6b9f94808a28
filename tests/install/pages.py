"""pages.py SOURCE PREFIX DOCDIR: every link in the installed text resolves within the installation, every public function has its manual
page, and the shells' completions have every option of every command.
"""
import os
import re
import shutil
import subprocess
import sys

source, prefix, documents = sys.argv[1], sys.argv[2], os.path.join(sys.argv[2], sys.argv[3])
bad = 0


def complain(text):
    global bad
    bad += 1
    print(text)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def check_links():
    links = 0
    for folder, _, files in os.walk(documents):
        for file in files:
            path = os.path.join(folder, file)
            shown = file in ("LICENSE", "copyright")
            if not shown and (file == "CMakeLists.txt" or
                              not file.endswith((".md", ".c", ".h", ".svg", ".json", ".yml", ".lua", "Jenkinsfile"))):
                complain(f"{path}: not for users")
            if not file.endswith(".md"):
                continue
            text = re.sub(r"```.*?```|`[^`\n]*`", "", read(path), flags=re.S)
            for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text):
                if re.match(r"\w+:", target) or target.startswith("#"):
                    continue
                links += 1
                name, _, anchor = target.partition("#")
                found = os.path.normpath(os.path.join(folder, name))
                if not found.startswith(documents) or not os.path.exists(found):
                    complain(f"{path}: {target} leads nowhere")
                elif anchor and anchor not in anchors(read(found)):
                    complain(f"{path}: {target}: no such heading")
    if links < 20:
        complain(f"only {links} links in {documents}")


def anchors(text):
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
            for title in re.findall(r"^#+ (.*)$", text, re.M)}


def check_manual():
    folder = os.path.join(prefix, "share/man/man3")
    include = os.path.join(prefix, "include/lockstep")
    headers = [os.path.relpath(os.path.join(at, file), include)
               for at, _, files in os.walk(include) for file in files]
    names = [name for what in ("functions", "macros") for name in subprocess.run(
        [sys.executable, os.path.join(source, "cmake/headers.py"), what, *headers], cwd=include,
        check=True, capture_output=True, text=True).stdout.split()]
    pages = {name: read(os.path.join(folder, name)) for name in os.listdir(folder)}
    for name in names:
        synopsis, _, text = pages.get(name + ".3", "").partition(".SH DESCRIPTION\n")
        if not re.search(rf"\b{name}\(", synopsis):
            complain(f"no page shows how {name} is called")
        elif len(text.partition(".SH SEE ALSO")[0].split()) < 4:
            complain(f"the page of {name} does not say what it does")
    for name, text in pages.items():
        if text.startswith(".so "):
            continue
        if not text.startswith(".TH ") or "\n.SH NAME\n" not in text:
            complain(f"{name} is no manual page")
        if re.search(r"^LS_API |__cplusplus", text, re.M):
            complain(f"{name} shows what only the compiler reads")
        if shutil.which("groff"):
            told = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-z"], input=text,
                                  capture_output=True, text=True).stderr
            if told:
                complain(f"{name}: {told}")


def check_completions():
    program = os.path.join(prefix, "bin/lockstep")
    shells = {"bash": "share/bash-completion/completions/lockstep",
              "zsh": "share/zsh/site-functions/_lockstep",
              "fish": "share/fish/vendor_completions.d/lockstep.fish"}
    scripts = {shell: read(os.path.join(prefix, path)) for shell, path in shells.items()}

    def asked(*words):
        return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout

    listing = asked("--help").split("commands:\n")[1].split("\n\n")[0]
    commands = [line.split()[0] for line in listing.splitlines()]
    for command in commands:
        options = re.findall(r"^ +(?:-\w, )?--([\w-]+)", asked(command, "--help"), re.M)
        if "help" not in options:
            complain(f"{command}: --help was not understood")
        bash = re.search(rf'^ +{command}:\*\) words="([^"]*)"', scripts["bash"], re.M)
        zsh = re.search(rf"^    {command}\)\n(.*?);;", scripts["zsh"], re.M | re.S)
        fish = "\n".join(line for line in scripts["fish"].splitlines()
                         if f"_from {command}'" in line)
        if not bash or not zsh:
            complain(f"{command}: no completion")
            continue
        for option in options:
            if f"--{option}" not in bash.group(1).split():
                complain(f"bash does not know {command} --{option}")
            if not re.search(rf"--{option}[\[=,}}]", zsh.group(1)):
                complain(f"zsh does not know {command} --{option}")
            if not re.search(rf" -l {option}( |$)", fish, re.M):
                complain(f"fish does not know {command} --{option}")
    for shell, path in shells.items():
        if shutil.which(shell):
            told = subprocess.run([shell, "-n", os.path.join(prefix, path)], capture_output=True,
                                  text=True)
            if told.returncode != 0 or told.stderr:
                complain(f"{path}: {told.stderr}")


check_links()
check_manual()
check_completions()
sys.exit(bad > 0)
