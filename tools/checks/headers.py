"""Each header compiles alone: one translation unit per header that includes nothing else."""
import concurrent.futures
import os
import shutil
import subprocess
import sys


def compile_alone(header):
    # .cuh and -inl.h files are included in a context of their own and are left out by the caller.
    command = ["g++", "-std=c++20", "-I.", "-DBOOST_ASIO_SEPARATE_COMPILATION", "-DBOOST_BEAST_SEPARATE_COMPILATION",
               '-DYOKE_SOURCE_DIR="."', '-DYOKE_GOLDEN_ROOT="."',
               "-x", "c++", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-include", header, os.devnull]
    run = subprocess.run(command, capture_output=True, text=True)
    return header, run.returncode, run.stderr


def main():
    if not shutil.which("g++"):
        print("headers: g++ is missing", file=sys.stderr)
        return 1
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.h"], capture_output=True, text=True, check=True)
    headers = [h for h in out.stdout.split("\n") if h and not h.endswith("-inl.h") and os.path.exists(h)]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for header, code, errors in pool.map(compile_alone, headers):
            if code:
                failed += 1
                print(f"{header} does not compile alone:\n{errors}", file=sys.stderr)
    print(f"headers: {len(headers)} compiled alone, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
