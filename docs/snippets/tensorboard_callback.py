from torch.utils.tensorboard import SummaryWriter

import glassformer as gf


def tell(record):
    for name in record.keys() - {"step"}:
        board.add_scalar(name, record[name], record["step"])


with SummaryWriter("runs/board") as board:
    gf.train("docstrings-char", set={"training.steps": 6, "model.layers": 1}, out="runs/tb", on_step=tell, on_evaluation=tell)
