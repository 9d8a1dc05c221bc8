#!/usr/bin/env python3
"""Compare exported networks with our own logits: at most 1e-5 of the largest logit apart, on 1,000 inputs each.

usage: check_exports.py onnx|torch FOLDER     FOLDER/<i> as tests/fit/make_exports.c writes them
"""
import array
import importlib.util
import json
import os
import sys


def read_numbers(path):
    numbers = array.array("f")
    with open(path, "rb") as file:
        numbers.frombytes(file.read())
    return numbers


def input_shape(folder):
    with open(os.path.join(folder, "network.json"), encoding="utf-8") as file:
        entry = json.load(file)["input"]
    if entry["kind"] == "rows":
        return (-1, entry["columns"])
    return (-1, entry["channels"], entry["height"], entry["width"])


def run_onnx(folder):
    import numpy
    import onnx
    import onnxruntime

    path = os.path.join(folder, "network.onnx")
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert model.opset_import[0].version == 17
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"
    inputs = numpy.fromfile(os.path.join(folder, "inputs.f32"), numpy.float32).reshape(input_shape(folder))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    whole = session.run(["logits"], {"input": inputs})[0]
    # any number of inputs
    one = session.run(["logits"], {"input": inputs[:1]})[0]
    assert abs(one[0] - whole[0]).max() <= 1e-5 * abs(whole).max()
    return whole.ravel().tolist()


def run_torch(folder):
    import torch

    torch.set_num_threads(1)
    spec = importlib.util.spec_from_file_location("exported", os.path.join(folder, "network.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    inputs = torch.tensor(read_numbers(os.path.join(folder, "inputs.f32"))).reshape(input_shape(folder))
    network = module.Network().eval()
    assert module.Network.classes[1] == "class 1"
    with torch.no_grad():
        return network(inputs).flatten().tolist()


def main():
    runs = {"onnx": run_onnx, "torch": run_torch}
    run, root = runs[sys.argv[1]], sys.argv[2]
    worst = 0
    for name in sorted(os.listdir(root)):
        folder = os.path.join(root, name)
        expected = read_numbers(os.path.join(folder, "logits.f32"))
        found = run(folder)
        most = max(abs(x) for x in expected)
        apart = max(abs(a - b) for a, b in zip(found, expected)) / most
        print(f"network {name}: {len(expected)} logits, apart {apart:.2g} of the largest, {most:.3g}")
        if len(found) != len(expected) or not apart <= 1e-5:
            sys.exit(f"network {name}: {len(found)} logits, too far apart")
        worst = max(worst, apart)
    if len(os.listdir(root)) < 12:
        sys.exit("fewer than ten networks")


main()
