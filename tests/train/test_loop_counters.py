from tpack.train.loop import LoopCounters, TrainLoop


def test_every_counter_of_the_loop_can_be_read():
    class Holder(LoopCounters):
        loop = TrainLoop()

    holder = Holder()
    for value, name in enumerate(
        ("epoch_num", "global_step", "local_step", "steps_per_epoch", "starting_epoch", "max_epoch"), start=10
    ):
        setattr(holder.loop, name, value)
        assert getattr(holder, name) == value
