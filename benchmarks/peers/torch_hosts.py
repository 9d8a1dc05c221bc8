#!/usr/bin/env python3
"""The peer of `esper bench host`: the same hosts trained with PyTorch, in every way known to be good.

Trains E copies of a host (blocks of conv 3x3, batch norm, ReLU, 2x2 max-pool; global average; linear) with
SGD (momentum 0.9, weight decay 5e-4) and prints images per second as JSON; the best way counts. The batch is
ready in memory, in the layout and type the way computes in, and is the same at every step: what ours spends on
gathering and converting images is left out here, in the peer's favour.

  CPU    E separate models or all E in one model of grouped convolutions, each in both memory layouts
  CUDA   one grouped model, both layouts, every step launched anew or replayed from a CUDA graph; with
         --precision bf16 by autocast over f32 weights, or bf16 weights under f32 masters. SGD is fused.
  --compile best adds torch.compile to the best of them, --compile all to each (replayed on CUDA)

Each way lives in a process of its own, forked from one that has imported PyTorch and never touches CUDA, and one
at a time is at work. So a way that fails in any manner (an exception, a CUDA error that spoils its process, a
crash, no answer within --way-limit) is named under "failed", with what it was doing, and takes no other along. All ways
are tried briefly; those close to the best stay, idle, and are measured. "loss" is the mean loss of a host at the
end, so that one sees that it trained.

    torch_hosts.py --hosts 4 --batch 128 --threads 2
    torch_hosts.py --task tiny --hosts 16 --batch 64
    torch_hosts.py --device cuda --precision bf16 --hosts 64
    printf '64\\n64\\n' | torch_hosts.py --device cuda --precision bf16 --serve
"""
import argparse
import collections
import contextlib
import ctypes
import itertools
import json
import math
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time

# image channels, image size, channels of the first block, blocks
TASKS = {"cifar_baseline": (3, 32, 8, 3), "tiny": (1, 16, 4, 2)}
SURVEY_WINDOWS = 2
# ways this close to the best of the survey, and no more than so many, are kept and measured
CONTENDER, MAX_KEPT = 0.9, 4
# a compiled way may take so many times --way-limit
COMPILE_FACTOR = 10
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>

# model: separate, grouped; layout: nchw, channels_last; cast: f32, autocast, master; mode: eager, graph
Way = collections.namedtuple("Way", "model layout cast is_compiled mode")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--task", choices=sorted(TASKS), default="cifar_baseline")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--blocks", type=int, default=0, help="0 = the task's")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one timed window, at least")
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--way-limit", type=float, default=20.0,
                        help="seconds that a way may take to open the device, to build, to calibrate, or to measure\n"
                             f"beyond its windows; {COMPILE_FACTOR} times that when compiled; default: %(default)s")
    parser.add_argument("--separate", action="store_true", help="CUDA: also E separate models")
    parser.add_argument("--compile", choices=["none", "best", "all"], default="none",
                        help="also with torch.compile: the best of the other ways (a minute), or all (many minutes)")
    parser.add_argument("--serve", action="store_true",
                        help="read numbers of hosts from standard input, one a line; answer each with a line.\n"
                             "When the number changes all ways are tried anew; where none works, the answer has "
                             "\"error\"")
    return parser.parse_args()


def ways_of(options, n_hosts):
    on_cuda, is_narrow = options.device.startswith("cuda"), options.precision == "bf16"
    models = ["grouped"] if on_cuda and not options.separate else ["separate", "grouped"]
    ways = [Way(*way) for way in itertools.product(
        models if n_hosts > 1 else ["separate"],  # one group is the plain model
        ["nchw", "channels_last"],
        ["f32"] if not is_narrow else ["autocast", "master"] if on_cuda else ["autocast"],
        [False] if options.compile == "none" else [False, True],
        ["graph", "eager"] if on_cuda else ["eager"])]
    # launching what was compiled is no faster than replaying it
    return [way for way in ways if not (on_cuda and way.is_compiled and way.mode == "eager")]


def name_of(way, options):
    words = [way.model, way.layout]
    words += [] if way.cast == "f32" else [way.cast]
    words += ["compiled"] if way.is_compiled else []
    words += [way.mode] if options.device.startswith("cuda") else []
    return " ".join(words)


def define_host(torch):
    nn, functional = torch.nn, torch.nn.functional

    class Host(nn.Module):
        """`groups` hosts side by side in the channel axis; one is the plain host."""

        def __init__(self, groups, n_in, channels):
            super().__init__()
            self.groups = groups
            widths = (n_in,) + channels
            self.convs = nn.ModuleList(
                nn.Conv2d(groups * i, groups * o, 3, padding=1, bias=False, groups=groups)
                for i, o in zip(widths, widths[1:]))
            self.norms = nn.ModuleList(nn.BatchNorm2d(groups * o) for o in channels)
            self.head = nn.Conv1d(groups * channels[-1], groups * 10, 1, groups=groups)

        def forward(self, x):
            for conv, norm in zip(self.convs, self.norms):
                x = functional.max_pool2d(functional.relu(norm(conv(x))), 2)
            x = x.mean((2, 3)).unsqueeze(2)
            return self.head(x).view(-1, self.groups, 10)

    return Host


class Trainer:
    """One way of training n hosts: builds a function that runs one step, and times it. Lives in a child, whose
    parent asks for open, build, calibrate and then measure."""

    def __init__(self, options, way, n_hosts):
        self.options, self.way, self.n_hosts, self.device = options, way, n_hosts, options.device
        self.on_cuda = options.device.startswith("cuda")
        self.n_in, self.size, base, n_blocks = TASKS[options.task]
        self.channels = tuple(base << block for block in range(options.blocks or n_blocks))
        self.torch = self.host_class = None  # filled by open
        self.step, self.losses, self.n_steps = None, [], 0  # losses: one of each model; n_steps: in one window
        self.captured = None  # a graph reads memory of the step that it was captured from: both must live

    def open(self):
        import torch  # the parent has: this finds it loaded
        import torch._dynamo  # seconds, and the first optimizer would do it. It may touch CUDA

        torch.set_num_threads(self.options.threads)
        torch.backends.cudnn.benchmark = True
        if self.on_cuda:
            if not torch.cuda.is_available():
                raise RuntimeError(f"PyTorch {torch.__version__} finds no CUDA device")
            torch.zeros(1, device=self.device)  # opens the context
        if self.way.is_compiled:  # every model compiles the same function anew; past the limit it would not
            torch._dynamo.config.recompile_limit = 1000
        self.torch, self.host_class = torch, define_host(torch)

    # --- building ---

    def make_sgd(self, parameters):
        settings = {"lr": 0.01, "momentum": 0.9, "weight_decay": 5e-4}
        if not self.on_cuda:
            return self.torch.optim.SGD(parameters, **settings)
        try:
            return self.torch.optim.SGD(parameters, fused=True, **settings)
        except (RuntimeError, TypeError):  # PyTorch before 2.3
            return self.torch.optim.SGD(parameters, foreach=True, **settings)

    def make_model_step(self, groups, images, labels):
        """One SGD step of one model."""
        torch, way, batch, losses = self.torch, self.way, self.options.batch, self.losses
        layout = torch.channels_last if way.layout == "channels_last" else torch.contiguous_format
        model = self.host_class(groups, self.n_in, self.channels).to(self.device, memory_format=layout)
        if way.cast == "master":  # norms keep f32 weights, as is usual; they read and write bf16
            for layer in (*model.convs, model.head):
                layer.to(torch.bfloat16)
        narrow = [p for p in model.parameters() if p.dtype == torch.bfloat16]
        masters = [p.detach().float().clone() for p in narrow]
        for master in masters:
            master.grad = torch.zeros_like(master)
        wide = [p for p in model.parameters() if p.dtype == torch.float32]
        update = self.make_sgd(wide + masters)
        forward = torch.compile(model, dynamic=False) if way.is_compiled else model
        index = len(losses)
        losses.append(None)

        def step():
            with torch.autocast(self.device.split(":")[0], torch.bfloat16, enabled=way.cast == "autocast"):
                logits = forward(images)
            # the mean over images of each host's loss, summed over hosts: every host sees its own gradient
            loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten(),
                                                     reduction="sum") / batch
            model.zero_grad(set_to_none=True)
            loss.backward()
            with torch.no_grad():
                if narrow:
                    torch._foreach_copy_([m.grad for m in masters], [p.grad for p in narrow])
                update.step()
                if narrow:
                    torch._foreach_copy_(narrow, masters)
            losses[index] = loss.detach()

        return step

    def build(self):
        torch, way, batch = self.torch, self.way, self.options.batch
        torch.manual_seed(1)
        groups, n_models = (self.n_hosts, 1) if way.model == "grouped" else (1, self.n_hosts)
        layout = torch.channels_last if way.layout == "channels_last" else torch.contiguous_format
        images = torch.randn(batch, groups * self.n_in, self.size, self.size, device=self.device)
        images = images.to(torch.float32 if way.cast == "f32" else torch.bfloat16, memory_format=layout)
        labels = torch.randint(0, 10, (batch, groups), device=self.device)
        parts = [self.make_model_step(groups, images, labels) for _ in range(n_models)]

        def step():
            for part in parts:
                part()

        self.step = self.capture(step) if way.mode == "graph" else step
        self.wait()

    def capture(self, step):
        torch = self.torch
        # convolutions are tuned and momentum is allocated before the capture, on a stream that it may use
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(5):
                step()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        self.captured = step
        return graph.replay

    # --- measuring ---

    def wait(self):
        if self.on_cuda:
            self.torch.cuda.synchronize()

    def time_steps(self, n_steps):
        self.wait()
        start = time.perf_counter()
        for _ in range(n_steps):
            self.step()
        self.wait()
        return time.perf_counter() - start

    def calibrate(self):
        """How many steps make a window. Also warms up."""
        n_steps, seconds = 1, self.time_steps(2) / 2
        while seconds < self.options.seconds / 4:
            n_steps *= 2
            seconds = self.time_steps(n_steps)
        self.n_steps = max(1, math.ceil(n_steps * self.options.seconds / seconds))

    def measure(self, n_windows):
        """Images per second of each window, and the mean loss of a host."""
        images = self.n_steps * self.n_hosts * self.options.batch
        rates = [images / self.time_steps(self.n_steps) for _ in range(n_windows)]
        loss = float(sum(loss.double().sum() for loss in self.losses)) / self.n_hosts
        if not math.isfinite(loss):
            raise RuntimeError("the loss is not finite")
        return {"rates": rates, "loss": loss}


class WayFailed(Exception):
    """A way of training gave no answer; the text says to what, and why."""


def answer_questions(pipe, trainer, messages):
    """The life of a child: one answer to each question, until it is ended."""
    os.setsid()  # with what it may start itself it is a group, and ends as one
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # also when nobody is left to end it
    for stream in (1, 2):  # standard output is the parent's alone
        os.dup2(messages.fileno(), stream)
    while True:
        question, arguments = pipe.recv()
        try:
            pipe.send((True, getattr(trainer, question)(*arguments)))
        except Exception as error:  # a peer that cannot do something is still a peer
            pipe.send((False, f"{type(error).__name__}: {error}".splitlines()[0][:200]))


class Child:
    """A process that has one trainer, seen from the parent."""

    def __init__(self, trainer, limit_s, window_s):
        self.limit_s, self.window_s = limit_s, window_s
        self.question, self.allowed_s, self.deadline = "", 0.0, 0.0  # filled by send
        self.messages = tempfile.TemporaryFile("w+", errors="replace")  # what it prints
        fork = multiprocessing.get_context("fork")
        self.pipe, its_pipe = fork.Pipe()
        self.process = fork.Process(target=answer_questions, args=(its_pipe, trainer, self.messages))
        self.process.start()
        its_pipe.close()  # so that its end is seen as the end of the pipe

    def send(self, question, *arguments):
        self.question = question
        # what it is slower than calibrated, up to ten times, is not yet a hang
        self.allowed_s = self.limit_s + 10 * self.window_s * sum(arguments)
        self.deadline = time.monotonic() + self.allowed_s
        with contextlib.suppress(OSError):  # it has ended; receive says why
            self.pipe.send((question, arguments))

    def receive(self):
        try:
            if not self.pipe.poll(max(0.0, self.deadline - time.monotonic())):
                raise WayFailed(f"{self.question}: no answer in {self.allowed_s:.0f} s")
            is_good, answer = self.pipe.recv()
        except (EOFError, OSError):
            raise WayFailed(f"{self.question}: {self.last_words()}") from None
        if not is_good:
            raise WayFailed(f"{self.question}: {answer}")
        return answer

    def ask(self, question, *arguments):
        self.send(question, *arguments)
        return self.receive()

    def last_words(self):
        """How a child ended, and the last line that it printed."""
        self.process.join(5)
        code = self.process.exitcode
        how = f"exit code {code}" if code is None or code >= 0 else f"ended by {signal.Signals(-code).name}"
        self.messages.seek(0)
        lines = [line.strip() for line in self.messages if line.strip()]
        return f"{how}: {lines[-1][:200]}" if lines else how

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()  # should it not yet lead its group
        self.process.join(5)  # no longer: a driver may hold on to what was killed
        self.pipe.close()
        self.messages.close()


class Peer:
    """The children that train n hosts, one for each way, and what was seen of them."""

    def __init__(self, options):
        os.environ["OMP_NUM_THREADS"] = str(options.threads)
        import torch  # costly, hence once. CUDA must not be touched here: it does not survive a fork

        self.options, self.version, self.n_hosts = options, torch.__version__, 0
        self.children = {}  # by name of the way, as are the others: those that are alive
        self.rates = {}     # the median of what was measured last
        self.failed = {}    # why
        self.ways = {}

    def drop(self, name):
        self.children.pop(name).end()

    def close(self):
        for name in list(self.children):
            self.drop(name)

    @contextlib.contextmanager
    def naming_failure(self, name):
        """A failure of this way inside of the block ends the block, and the way with it."""
        try:
            yield self.children[name]
        except WayFailed as error:
            self.failed[name] = str(error)
            self.rates.pop(name, None)
            self.drop(name)

    def start(self):
        """Start and open a child for each way that has not failed. There must be no children."""
        options, self.rates = self.options, {}
        for way in sorted(ways_of(options, self.n_hosts), key=lambda way: way.is_compiled):
            name, limit_s = name_of(way, options), options.way_limit * (COMPILE_FACTOR if way.is_compiled else 1)
            self.ways[name] = way
            if name not in self.failed:
                self.children[name] = Child(Trainer(options, way, self.n_hosts), limit_s, options.seconds)
        for child in self.children.values():  # seconds each on a GPU, hence together: nothing is measured yet
            child.send("open")
        for name in list(self.children):
            with self.naming_failure(name) as child:
                child.receive()

    def is_hopeless(self, name):
        """Whether it is compiled, and the best that is not compiled computes in another way."""
        plain = [other for other in self.rates if not self.ways[other].is_compiled]
        if self.options.compile != "best" or not self.ways[name].is_compiled or not plain:
            return False
        best = self.ways[max(plain, key=self.rates.get)]
        return self.ways[name]._replace(is_compiled=False, mode=best.mode) != best

    def survey(self):
        """Try each way briefly and end those that cannot be the best."""
        for name in list(self.children):  # those that are compiled come last
            if self.is_hopeless(name):
                self.drop(name)
                continue
            with self.naming_failure(name) as child:
                child.ask("build")
                child.ask("calibrate")
                self.rates[name] = statistics.median(child.ask("measure", SURVEY_WINDOWS)["rates"])
            ranking = sorted(self.rates, key=self.rates.get, reverse=True)
            for place, other in enumerate(ranking):
                is_close = self.rates[other] >= CONTENDER * self.rates[ranking[0]]
                if other in self.children and not (is_close and place < MAX_KEPT):
                    self.drop(other)

    def measure(self):
        """What the ways that were kept answer, by name."""
        results = {}
        for name in list(self.children):
            with self.naming_failure(name) as child:
                results[name] = child.ask("measure", self.options.windows)
                self.rates[name] = statistics.median(results[name]["rates"])
        return results

    def report(self, n_hosts):
        options = self.options
        if n_hosts != self.n_hosts:
            self.close()
            self.rates, self.failed, self.n_hosts = {}, {}, n_hosts
        results = self.measure()
        # also when all that were kept have failed since: those that were ended get their chance again
        while not results and len(self.failed) < len(ways_of(options, n_hosts)):
            self.start()
            self.survey()
            results = self.measure()
        report = {
            "task": options.task, "hosts": n_hosts, "batch": options.batch, "threads": options.threads,
            "device": options.device, "precision": options.precision, "torch": self.version,
            "python": sys.version.split()[0], "all": self.rates, "failed": self.failed, "input": "a ready batch",
        }
        if not results:
            return {**report, "error": f"no way of training {n_hosts} hosts works: {json.dumps(self.failed)}"}
        best = max(results, key=self.rates.get)
        return {**report, "images_per_second": self.rates[best], "best": best,
                "samples": results[best]["rates"], "loss": results[best]["loss"]}


def main():
    options = parse()
    with contextlib.closing(Peer(options)) as peer:
        for line in sys.stdin if options.serve else [options.hosts]:
            report = peer.report(int(line))
            if "error" in report and not options.serve:
                sys.exit(f"torch_hosts.py: {report['error']}")
            print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
