"""What the runs of each table say, in words: paragraphs of docs/results.md, which tools/results.py writes."""

from __future__ import annotations

FINDINGS = {
    "paper.table1": """The plain CNN reproduces the published number. Sigmoid and cosine SphereConv, with weights that
        are projected every 100 steps, are almost a point above the published numbers and one point above the plain CNN.
        The paper does not say how it controlled the norm of the weights.

        A-Softmax (m = 4, λ ≥ 5) gains 0.46 [+0.02, +0.90] over the softmax on the plain CNN, published 1.20: in
        direction, a third of it. GA-Softmax on sigmoid SphereConvs gains -0.20 [-0.71, +0.31] over the softmax of the
        same network, published 1.30: not reproduced. (Over the softmax of the plain CNN it gains 1.11, published 1.80;
        there the SphereConvs gain 1.31 without a margin.) The cosine W-Softmax, which has no margin, is level with the
        softmax on sigmoid SphereConvs, -0.13 [-0.58, +0.33], published +0.20.

        The margins are printed with 1.0 to 1.3 points more than the softmax for every operator; the paper prints
        neither λ nor how weights are held. To find where these points could come from, nineteen settings were trained
        with one seed and a quarter of the steps.

        λ: the whole margin of m = 4 (λ = 0 from an eighth of the steps on) costs 5 to 9 points, with GA- and A-Softmax,
        for both networks, under every other setting that was tried. These networks give up 10 to 12 % of their training
        images, where all others know 99.8 % or more. The loss that is left is 1.0 to 1.5 times log 10 for each image
        that is wrong, which is about what an image costs whose feature has no length: ‖x‖ is free, so a margin that is
        too hard can be escaped. With λ ≥ 5 the margin gains 0.8 on the sigmoid network and 0.2 on the plain CNN, which
        one seed cannot distinguish from 0.

        Weights of SphereConvs: the constraint ‖WᵀW − I‖² of sec. 2.4 (1e-4) instead of the projection costs 0.2 with
        the softmax and 1.0 with the margin (λ ≥ 5); neither of the two costs 2.0 with the softmax.

        Head and feature scale: decay of the class vectors, decay of all parameters (which bounds ‖x‖ by the scales of
        BatchNorm) and features without BatchNorm do not bring back what the whole margin costs.

        The authors' public code (https://github.com/wy1iu/SphereNet) has no margin. It differs from the text by the
        constraint without projection, decay of the scales and shifts of BatchNorm, slow statistics of BatchNorm, a loss
        of log(p + 1e-4) with labels smoothed by 0.01, and twice the filters. Its logs end at 90.6 (plain) and 91.4
        (sigmoid). With these settings (`tools/released.py`) and our filters the softmax loses 0.2 on the sigmoid
        network and 0.9 on the plain CNN, and the whole margin costs 6 to 9 points as elsewhere.

        So none of these settings shows the published gain; other λ than 0 and 5 were not tried here, nor the slow
        schedule of L-Softmax, with which the whole margin gains 1.3 points with another loss, network and optimizer and
        without augmentation (thesis Table 2.3). One seed of the plain CNN has 91.1 after 16,000 steps, three others
        90.7 after 64,000: without the whole margin these networks learn their training images by heart.

        With a GPU of its own (seed 2) the plain network trains at 806 steps/s and the sigmoid network at 515. The other
        runs shared a GPU (the three of the cosine with each other), so their steps/s do not show the speed.""",
    "open.omniglot": """The 6,000 test pairs show characters that training never saw. With the published margins, scales
        and weights (6,000 steps, three seeds) center and triplet loss lead every margin, unlike in thesis Tables 2.9
        and 2.10, which are about faces.

        That order does not survive equal tuning (1,200 steps, nine settings of each loss, five seeds). All five losses
        that normalise features chose the scale 16 instead of 30 or 64. MagFace then leads, 0.3 [0.0, 0.6] above the
        triplet loss and 0.6 [0.3, 0.8] above the center loss. ArcFace is 0.4 [0.2, 0.6] above the center loss and level
        with the triplet loss, as are sub-center ArcFace and AdaFace; CosFace and A-Softmax are level with the center
        loss. So the set is not what kept margins back. With each of the three margins of these five losses, the scale
        16 is better on held-out classes than 64, and in 13 of 15 cases 30 lies between them. 16 is the smallest scale
        of the search: a smaller one may be better still. What the shorter training does by itself was not separated.

        Nothing collapses in the chosen settings: the networks know 89 to 95 % of their last training images, and the
        mean of the unit features has a length of 0.13 to 0.20. Three settings of the search collapsed: A-Softmax with m
        = 3 or 4 whose margin is whole after a quarter of the steps, and with m = 4 after half of them. The recipes' own
        settings of CosFace, ArcFace, AdaFace, MagFace and sub-center ArcFace were not run in 1,200 steps.""",
    "open.lfw": """Training has 9,525 faces of 4,038 people; the 1,000 test pairs show other people. A-Softmax and
        SphereFace+ are two to three points above the softmax. ArcFace is two points above it, which three seeds cannot
        distinguish from 0. CosFace and the contrastive loss are level with it. As on Omniglot, center and triplet loss
        are ahead, here by about a point. Half of the people have only one image, unlike in CASIA-WebFace. The standard
        error of one run is 0.5 to 1.0.

        Tuned by the same budget, on faces of 56×48 and in 1,200 steps (five seeds), the center loss still leads: by 2.7
        [1.4, 4.0] over the softmax, 1.9 [0.1, 3.7] over A-Softmax, 2.1 [0.8, 3.4] over the triplet loss and 2.9 [1.6,
        4.2] over ArcFace. MagFace is level with it (0.4 [-1.2, 2.0] below) and so is SphereFace+ (1.2 [-0.1, 2.5]
        below); they are 2.3 [0.9, 3.6] and 1.5 [0.5, 2.5] above the softmax. The triplet and the contrastive loss,
        A-Softmax and ArcFace are level with the softmax; CosFace, sub-center ArcFace and AdaFace are 1.4 to 2.0 below
        it.

        It is not the data. ArcFace, CosFace, AdaFace and sub-center ArcFace have not learned their training images by
        then (36 to 44 %, the softmax 97 %), and the network is the reason: SphereFace-10 has no BatchNorm, and a loss
        that divides by the length of a feature lets it grow. In a trial on a CPU (one seed, 28×24 pixels; not in the
        JSON) the mean length went from 24 to 820 in 30 steps with ArcFace and from 24 to 10 with the softmax; the
        longer a feature, the less a step turns it. MagFace, whose penalty pulls the lengths towards 110, had 42 after
        20 steps where ArcFace had 530; with margins of 0.1 to 0.2 and the scale 16 it learns 96 % of the training
        images of the search, ArcFace with 0.1 and the same scale 72 %.

        With BatchNorm in the same network and the same chosen settings (three seeds) ArcFace leads: 87.7, which is 1.8
        [0.2, 3.3] above the center loss and 3.1 [1.1, 5.2] above the softmax, and 3.7 [2.2, 5.1] above itself without
        BatchNorm. CosFace gains 3.6 [1.0, 6.1] by it and is level with the center loss; softmax and center loss show no
        gain. Over the center loss without BatchNorm, which is its better one, ArcFace's lead of 0.8 [-0.8, 2.3] cannot
        be distinguished from 0. So what held these margins back is the network of our recipe, not the set. MagFace,
        whose penalty holds the lengths, shows no gain by BatchNorm (86.7, +0.1 [-1.2, 1.5]), and neither does A-Softmax
        (85.9, +0.8 [-1.0, 2.5]), which does not divide by them; so few seeds would not show a gain of one point.
        ArcFace with BatchNorm is 1.9 [0.3, 3.4] above A-Softmax with it and level with MagFace (1.0 [-0.5, 2.6] above).
        AdaFace and sub-center ArcFace with BatchNorm were not tried, and neither were 6,000 steps of any loss with it.

        Every loss that normalises features chose the scale 16, the smallest of the search, as on Omniglot. Of the
        settings that were searched six collapsed, none of them chosen: A-Softmax with m = 4 whose margin is whole after
        a quarter or half of the steps, ArcFace with m = 0.5 and the scale 64, and three of MagFace. Training warned of
        two, both of MagFace. Today's rule compares with always naming the most frequent person (6.8 % of the images of
        the search) and warns of those of A-Softmax too; the other two, with 7.6 and 8.4 % of their last training
        images, are just above it. The other four settings of A-Softmax whose margin is whole early did not learn either
        (55 to 64 % on held-out classes).

        In an earlier order of batches all people with one image came at the end of an epoch. With it the softmax with
        contrastive loss diverged to 60 % (marked "changed" in the JSON).

        The stored settings say `init: none` for softmax, A-Softmax, CosFace, ArcFace and SphereFace+, and `init: he`
        for center, triplet and contrastive loss, as the recipe does today. Both mean the same initial weights: at the
        commits in the JSON a SphereFace network drew its weights by He's rule, and today's recipe gives the same
        weights bit for bit (checked for all five with seed 0). The other settings that differ are newer than these
        runs; the older code had their values built in.""",
    "open.omniglot_few_shot": """These are means of three seeds. A cosine classifier (baseline++) gains ten points with
        one drawing and one point with five. Neither half-space MHE nor OPT makes a difference beyond the spread of the
        seeds on this set, where little is left to gain.""",
    "open.cifar10_gan": """These runs have one seed, a fifth of the steps, and a CIFAR-10 classifier instead of
        Inception. MHE on the discriminator neither helps nor harms spectral normalization here.""",
    "thesis.table7.11": """These are means of twenty seeds. The thesis prints neither the variance of the fixed neurons
        nor a rate of R. Both were chosen by the accuracy on validation nodes, with two seeds on Cora and three on
        Pubmed, among variances of 2/d, 1 and 9 and two rates: variance 1 for both methods, the rate 1e-4 for Cayley's
        map (cp), the common one for orthogonal descent (ogd). (For ogd that was done on Pubmed alone, whose test nodes
        were not evaluated yet.) The search is in the JSON, marked "changed". It was made while the output layer decayed
        as well; as in Kipf and Welling's code the first layer alone, or its R under Cayley's map, decays now, which
        changes no mean of twenty seeds by more than 0.1.

        With these settings Cayley's map is level with the baseline on Cora and 0.6 below it on Pubmed; orthogonal
        descent is level with it on both. At the rate of the baseline, which F.3 keeps, three seeds of Cayley's map on
        Cora are four points below it on the test nodes, though on the validation nodes, which chose, the two rates are
        level (78.9 and 78.8).""",
    "thesis.table5.2": """The published gain is largest here: half-space MHE is printed with 12.6 points less error than
        the baseline. Our baseline of 16, 32 and 64 filters has 9 points less error than the printed one, with three
        seeds within 0.2. Half-space MHE lowers the mean energy from 0.517 to 0.505 and leaves the error where it was.
        Both networks know 78 % of their training images at the last step, so nothing suggests that ours is trained in
        another way than D.1 says.

        With the settings of the authors' public code (see Table 5.1; three seeds, all steps) there is a gain, and it is
        that of a start that fails. The baseline does not learn at all: in all three seeds the loss stands at log 100
        from step 400 on, where every feature is 0, and the error is 99 %. In a trial on a CPU (seed 0; not in the JSON)
        the features of four images in five were 0 after 20 steps and of 95 % after 160, all ReLUs being silent: the
        fully connected layer has neither BatchNorm nor biases there. The gradient of the energy does not ask whether a
        neuron is silent. With half-space MHE all three seeds leave this state, after 400, 500 and 1,500 steps, and end
        at 39.3 % error, which is 60 points less.

        The printed baseline (47.72) is between our two, as one that fails for a while would be; the logs of the public
        code, of wider networks, stand still for 2,000 steps. The error with half-space MHE is then no better than the
        38.6 of our plain baseline with the settings of D.1, which does not fail. So the published gain is not
        reproduced where training works, and a larger one is where it does not. What differs between the public code and
        ours, so that their baseline recovers, is not known; its crops are continued by mirror images, ours by
        zeros.""",
    "thesis.table5.1": """The error of the baseline is 1.4 above the published one. Half-space MHE does what it is for:
        the mean energy ends at 0.509 instead of 0.522. The error stays where it was, in all three seeds. Both networks
        learn their training images by heart (99.5 % at the last step), and both lose the same 0.1 of test loss while
        they do.

        Weight decay (1e-4), rates, steps and the weight of MHE are those of D.1. The authors' public code
        (https://github.com/wy1iu/MHE) has others: a decay of 5e-4 on all parameters, no BatchNorm behind the fully
        connected layer, a loss of log(p + 1e-4), and the weight 10 on the output layer. Its logs show a start that
        fails: the loss stands at 9.1, where its gradient vanishes, for 2,000 steps of the baseline and for 1,200 of
        half-space MHE, until weight decay has shrunk the weights. They end at 30.3 and 26.0 % error. Whole trainings
        with these settings (`tools/released.py`) have been run with 16, 32 and 64 filters: see Table 5.2. With the
        filters of this table they have not.""",
    "thesis.table6.1": """The trainings of the baseline and of half-space MHE are those of Table 5.1; what they show is
        said there. Random projections (five, to 30 dimensions, drawn anew every 1,000 steps) make no difference that
        three seeds show either, and the published gain of 3.64 is far outside the interval. The networks know 99.5 % of
        their last training images, as those of Table 5.1 do. The energy in the projections, weighted and summed over
        the layers, is 5.69 in the first 100 steps and 5.69 in the last (means of three seeds, 5.63 at the least; not in
        the JSON): the penalty hardly moves it. Other weights were not tried.

        Angle-preserving projections were trained with three seeds and cut off at 38,000 to 39,000 of 42,500 steps, so
        they are not in the JSON. Their rate had fallen for the last time at 37,500, and they had errors of 29.5, 29.1
        and 29.2 % then, against 29.5 of the baseline at its end: the published gain of 3.70 was not in sight.""",
    "paper.section4.3": """Learned k reach 91.97, 0.3 above the published number, and k = 0.3, the best constant of
        Table 1 under the same loss, reaches 91.90, 0.7 above its own. The difference is 0.06 [-0.25, +0.38], published
        0.42: level, and the published gain is just excluded. Sigmoid SphereConvs of k = 0.3 under the softmax are level
        with both (92.03, Table 1; learned k -0.06 [-0.51, +0.39]). Both with learned and with constant k the networks
        know their training images by heart.

        k starts at 0.5 everywhere. In the first layer of the first stage it ends between 0.09 and 1.03 (median 0.46),
        of the second between 0.25 and 0.52 (0.43), of the third between 0.35 and 0.54 (0.46; seed 0, not in the JSON).
        The paper's Figure 4 also shows a wide range in the first layer, from 0 to 1, and a narrower one in each later
        stage. But its k of the third stage lie around 0.8, where none of ours does.""",
    "thesis.figure5.4": """Published, the CNN ignores the digit of which it saw 100 images, and MHE mends that. Ours, by
        SGD as chapter 5 trains all its networks, ignores it only at first. The baseline has 88.4 to 89.0 % after 936
        steps, which is about the published number, first passes 95 % after 2,340 to 3,744 of the 9,360 steps (curves:
        not in the JSON) and ends at 98.5 %. The length of training is not printed: a training that ended early would
        show 88.5 %. But MHE has no more than the baseline so early, 88.2 to 89.0 % after 936 steps, with the energy of
        all layers or of the last.

        The energy of the output layer alone (other settings, above) ends at 0.917 in all three seeds, the minimum of
        ten directions in a plane: the class vectors are spread evenly, as the thesis says and draws. The accuracy,
        98.59, is level with the baseline's, and passes 95 % about when that does. With the energy of all layers,
        weighted as D.1 says for all experiments, two of three seeds learn the digit later, and the mean ends 1.3 lower,
        which three seeds cannot distinguish from 0. Whether the printed experiment had the energy of hidden layers is
        not said.

        The decay is that of D.1 for all networks. Not printed for this figure, besides the length of training, are the
        rate and the size of the batches (ours: those of D.1 on CIFAR), the network (that of C.4) and whether gradients
        are clipped (their norm at 1).

        With Adam and a decay of 5e-4, as an earlier recipe had it, the digit is ignored to the end, by the baseline as
        by MHE (89.5 both). One run of each had learned some of it (95.7 and 94.1 % at the best evaluation) and lost it
        again. Why is not known. In a trial with an MLP on a CPU (three seeds, not in the JSON) Adam ignored the digit
        without decay too, so the decay is hardly the whole reason. So whether the digit is ignored depends on how and
        how long the network is trained, and in none of these trainings does MHE mend it.""",
    "thesis.table2.2": """The softmax has the published error to two digits (0.397), and m = 4 is level with it (0.390).
        The margin is whole at the end (λ falls to 0.002 by the schedule of the authors' code), and both losses know
        their last training images: one of 153,600 was wrong. One hundredth of a point is one test image. Both losses
        have 0.36 to 0.42 %, so three seeds just exclude the published gain of nine images. The best evaluations do not
        show it either (0.39 and 0.37).""",
    "thesis.table7.1": """Published, a matrix R without constraint (UPT) costs five points. Ours costs nothing that
        three seeds show: 35.41 against 35.34 of the baseline, 35.14 of Gram-Schmidt (OPT with fixed neurons, published
        33.02) and 35.68 of Cayley's map (Table 7.4); at the end it knows 76 to 78 % of its training images, the two
        maps 78 % (Cayley's: of its log, not in the JSON). So nothing here suggests
        that orthogonality is needed, at least if R starts orthogonal: ours starts as a random orthogonal matrix, where
        F.3 draws R from N(0, 1). With that start all filters but those of the first layer are 24 times as long (neurons
        of the fully connected layer 32 times), which BatchNorm turns into a rate that is smaller by the square of it;
        it has not been tried (`--orthogonal.init literal`).""",
    "thesis.table7.4": """The error of our baseline is 2.3 below the published one, and the published gains are not
        there. Half-space MHE lowers the mean energy from 0.532 to 0.512. Cayley's map keeps it at the 0.504 of the
        first step, as it must. Yet half-space MHE gains 0.3, which the seeds cannot distinguish from 0, and Cayley's
        map loses 0.3.

        With Cayley's map the network fits more slowly: at the end of the first rate it knows 45 % of the training
        images where the baseline knows 55 %, at the last step 78 % against 81 % (of the logs, not in the JSON). Its
        test loss is the lower one (1.298 against 1.322). R has the rate and the weight decay of the baseline here, as
        F.3 says; a rate of its own, which helps on graphs (Table 7.11), has not been tried on these networks.

        Gram-Schmidt has 35.1, level with the baseline too, and with a smaller spread of the seeds. It knows 78 % of its
        last training images, and its test loss is 1.27.

        So the maps work and the printed numbers are not there. They are there with the settings of the authors' public
        code (https://github.com/wy1iu/OPT; other settings, above; `tools/released.py` has the command): Gram-Schmidt
        has 32.64 ± 0.11 (published 33.02) and Cayley's map 33.66 ± 0.06 (published 33.53), three seeds each. That code
        divides the rate at 30,000, 50,000 and 65,000 of 75,000 steps, where F.3 says "when the performance is
        saturated"; has no BatchNorm behind the fully connected layer, decay of all parameters, slow statistics of
        BatchNorm, crops of images continued by their mirror image and the loss of Table 5.2; and draws the skew matrix
        from N(0, 1). Over the same maps with the settings of D.1 that is 2.5 [2.1, 2.9] and 2.0 [1.0, 3.0] less error.

        The baseline is printed with 37.59. With the settings of the public code one seed of ours has 38.47, and another
        does not begin to learn: its loss stands at log 100 from step 300 on, as all three seeds of Table 5.2 did under
        such settings. (The third was cut off at 55,000 steps, with 37.0 % error, and is not in the JSON.) Beside that
        one seed the maps gain 5.8 and 4.8 points, published 4.6 and 4.1. Two things make these gains. Where neurons
        keep their lengths and angles none of six trainings failed; the baseline, whose mean energy ends at 0.56 instead
        of 0.50 (of the logs), knows 69 % of its last training images, Gram-Schmidt 80 %. And these settings do not suit
        the baseline: with those of D.1 it has 35.3 after 42,500 steps. More
        steps do not help it: in the 75,000 of the public code, with the rest of D.1, it has 35.31 ± 0.12, and
        Gram-Schmidt 35.22 ± 0.34 (three seeds each). So the schedule is not the reason for the gain. It is in the
        settings that remain, which take 2.6 [1.3, 3.9] off the error of Gram-Schmidt and do not suit the baseline;
        which of them does it has not been tested. Over the baseline of D.1 in as many steps, the best of ours,
        Gram-Schmidt as in the public code gains 2.7 [2.2, 3.1] and Cayley's map 1.7 [1.2, 2.1]. The baseline knows 84 %
        of its last training images then, Gram-Schmidt 82 % with the settings of D.1, 80 % with those of the code.""",
    "thesis.tableE.6": """These are means of twenty seeds. On Cora no method gains: half-space MHE and random
        projections are 0.1 above the baseline, angle-preserving projections 0.1 below it. On Citeseer all are 0.2 to
        0.3 above it. On Pubmed half-space MHE and random projections are 0.1 above the baseline, angle-preserving
        projections 0.2 below it. All intervals for independent seeds include 0.

        A seed starts all methods from the same weights, so gains can also be compared seed by seed. For half-space MHE,
        random and angle-preserving projections they are, on Cora, +0.07 [-0.10, +0.25], +0.07 [-0.15, +0.29] and -0.11
        [-0.39, +0.17], on Citeseer +0.33 [+0.08, +0.58], +0.16 [-0.10, +0.43] and +0.30 [-0.02, +0.61], and on Pubmed
        +0.12 [-0.02, +0.26], +0.10 [-0.05, +0.25] and -0.16 [-0.38, +0.06]. One interval of the nine excludes 0, that
        of half-space MHE on Citeseer, and it excludes the published 1.2 as well.

        As in Kipf and Welling's code the first layer alone decays. Twenty earlier seeds, marked "changed" in the JSON,
        decayed the output layer too: their means differ by 0.1 at most. Other runs that are marked so are of CoMHE:
        their random projections were never redrawn, and their angle-preserving projections hardly moved.""",
    "thesis.table4.3": """Without ReLU, SegConv with the square cosine has 25.0 % error, published 24.3, and the plain
        CNN 38.6, published 58.2. The gain is 13.5 [12.7, 14.3], published 34.0: in direction. What differs is the plain
        CNN, whose only nonlinearity is max pooling then: ours knows 75.5 % of its last training images and has 20
        points less error than the printed one.

        SegConv does not need the ReLU: without it, it has 3.1 [2.6, 3.7] less error than the plain CNN with ReLU, which
        has 28.2, published 26.0 (a gain of 1.7). They know 99.9 and 99.8 % of their last training images. The other
        operators have not been run.""",
    "thesis.table4.7": """The plain CNN and TanhConv, naturally trained, have been run with three seeds. SphereConv,
        BallConv and all networks trained on FGSM have not.

        On clean images the plain CNN has 90.6 %, which is 5.3 above the published number, and TanhConv 1.2 [0.1, 2.2]
        less than it, where 6.1 more are published. The recipe crops and mirrors, as the rest of the chapter does; the
        paper, whose augmentation C.1.1 follows, only mirrors what it calls CIFAR-10. The older run of the plain CNN
        without crops (20,000 steps, one seed) had 85.4, which is the published number. That crops make the difference
        was not tested.

        FGSM by the loss of training, as C.1.2 says, here the cross-entropy, leaves the plain CNN right on 18.0 % of the
        test images, published 18.8. The same step by the log-odds leaves it 4.7 %. In exact arithmetic the two
        gradients have the same signs. In float32, where p_y rounds to 1, that of the cross-entropy loses the target's
        term: the image is moved towards the other classes, but not away from its own. So 13 of the 18 % are not
        withstood by the same step computed without this rounding (BIM by the cross-entropy, which repeats the step,
        leaves 0.13 % at most). How often p_y rounds to 1 in these networks was not measured. TanhConv has 23.5 % under
        both. Its lead is 5.5 [4.7, 6.4] by the cross-entropy and 18.8 [17.4, 20.3] by the log-odds; 33.8 are published,
        with 52.6 % for TanhConv.

        BIM leaves neither network anything (0.13 % at most; published 8.7 and 10.2, near the 10 % of guessing).

        Older runs in the JSON are marked "changed": images were not cropped, there was no orthogonality penalty,
        attacks used the log-odds alone, and training took 20,000 of the 64,000 steps with one seed. There SphereConv,
        BallConv and TanhConv withstood FGSM alike, 19 % against the 5 % of the plain CNN. After FGSM training the plain
        CNN was the first under FGSM (published: the last). Published accuracies of 79 to 86 % under FGSM after FGSM
        training, beside 8 to 35 % under BIM, suggest label leaking.""",
    "thesis.table2.3": """The margin of L-Softmax gains about what is published: m = 4 has 1.29 [1.00, 1.57] less error
        than the softmax, published 1.47. It is whole at the end (λ falls to 0.001 by the schedule of the authors'
        code), and the network still knows 99.9 % of its last training images (the softmax all of them). With A- and
        GA-Softmax on CNN-9 the whole margin cost 5 to 9 points (paper Table 1). There λ fell to 0 within an eighth of
        the steps, class vectors were normalised, Adam trained the network, images were mirrored and the network was
        another (one seed each); which of these matters was not tested.

        Both errors are 2.7 to 2.9 above the published ones. The text names what we do: PReLU, BatchNorm, He's start, no
        dropout, subtraction of the mean, decay 5e-4. It does not say whether the scales of BatchNorm decay (ours do
        not), nor how PReLU starts (ours at 0.25); neither was varied.""",
    "thesis.table5.7": """Airplanes keep 500 of their 5,000 images. The baseline is near what is published: 9.1 % of all
        test images are wrong (9.8) and 29.7 % of airplanes (30.4). With half-space MHE the mean full-space energy of
        the hidden layers ends at 0.507 instead of 0.527 (of the logs, not in the JSON), and the error is 0.2 [-0.8,
        +1.1] lower: not distinguishable from 0, and the interval excludes the published 1.9. The error of airplanes
        differs by 5.5 between seeds of the baseline, and the gain there is 0.5 [-5.6, +6.6]: three seeds say nothing
        about the published 4.0. Both networks know 99.9 % of their last training images.""",
    "thesis.table7.3": """The deviation of the normal column is not printed. With 1, that of the repository which F.3
        follows, the baseline has 5.92 % error (published 6.05), with 0.01 it has 1.98 (three seeds each). So the recipe
        draws N(0, 1) now. Both are without weight decay, which F.3 names among the settings of CNNs. With it (5e-4;
        other settings, above) N(0, 1) gives 2.07 and Xavier's start 1.73, further from the printed 6.05 and 2.14. Other
        deviations were not tried.

        Xavier's start gives 1.83 (published 2.14), and Cayley's map with it 1.76: a gain of 0.07 [-0.30, +0.44], where
        0.65 is published. The mean energy of the neurons ends at 0.504 with the baseline and at 0.501 with Cayley's
        map, which keeps that of the first step (full space; of the logs, not in the JSON).

        With N(0, 1) Cayley's map has 5.02 (published 5.14) and gains 0.90 [0.06, 1.75] over the baseline, published
        0.91: reproduced. With neurons of deviation 0.01 it has 5.58 after 60,000 steps, 3.6 [3.4, 3.8] more than the
        baseline, and the error is still falling (7.7 to 8.0 at 27,000; not in the JSON). An orthogonal R does not
        change the length of a neuron; that this is the cause was not tested. The relaxed matrix (or.normal) did not
        train at the rate of F.3: its loss was no longer finite at the fourth step (seed 0, on a CPU; not in the JSON).

        Gram-Schmidt from U drawn from N(0, 1), which F.3 says of CNNs, learns slowly: cut off at 50,000 of 60,000
        steps, three seeds had errors of 3.0 to 3.2 (at 48,000), where Cayley's map ends at 1.76. The columns of this U
        have a length of 28 in the first layer. R does not depend on their length, but a step of SGD turns it by a 784th
        as much as with columns of length 1, and no weight decay shortens them. With these the error after 2,000 steps
        is 3.8 instead of 9.3 to 9.6, that of Cayley's map 4.1 (seed 0, on a CPU; not in the JSON). So the recipes of
        this table start from columns of length 1 now (`--orthogonal.init unit`). Whole trainings have not been run with
        them.""",
    "thesis.table2.4": """Only the softmax was trained to its end, and its error is 6.6 above the published one; those
        of CIFAR-10 are 2.7 to 2.9 above theirs (Table 2.3). The network knows all its training images.

        L-Softmax with m = 4 was cut off at 14,000 of 18,000 steps and is not in the JSON. At that step its three seeds
        had errors of 35.3, 34.6 and 35.9 %, those of the softmax 40.2, 38.6 and 39.9 %, which changed by 0.5 at most
        until the end. So a gain of 4.3 [2.6, 6.1] was there, published 3.21, and the network knew its training images.
        λ was 2.7 by then.""",
    "thesis.table7.5": """Without BatchNorm our baseline has an error 1.8 below the published one, and Cayley's map 1.6
        above its own. The gain of 0.68 [-0.16, 1.52] is the largest that it has on these networks with the settings of
        D.1, and the seeds cannot distinguish it from 0. Unlike with BatchNorm (Table 7.4), the network with
        Cayley's map knows more of its last training images than the baseline, 74 % against 72 %. Both converge in all
        three seeds. The settings of the authors' public code, with which Table 7.4 has its published numbers, were not
        tried here.""",
    "thesis.table7.6": """The minimum of the half-space energy is there: 3.4974 in all three seeds, published 3.4976.
        The verdict reads "in direction" because our seeds agree to four digits. What minimising the full-space
        energy does to the half-space energy, which the table shows, is not: run to its minimum, as ours is, pairs of
        neurons in the first layer (64 in 27 dimensions) become opposite, and the half-space energy of such a pair is
        unbounded. It is 83 to 283 and means nothing. The published 3.5003 is that of a descent which was ended after
        5,000 steps. These four numbers are known before the first step of training. No error was measured with
        minimised energies.""",
    "thesis.table7.2": """The energies before training, summed over the layers in half space, are those of the table:
        five of six within 0.0011, and 4.266 instead of 4.278 at a mean of 0.05. Only the rise from 0 to 0.001 is not
        there: it is printed as 0.0008, which is twice the spread between two draws of ours (0.0004), and a mean of
        0.001 is a sixtieth of the deviation of the neurons. The printed numbers are of one draw each, so verdicts on
        their last digits say little.

        The errors beside them are another matter. The mean 0.02 raises the energy as published, from 3.512 to 3.553,
        and the error by 0.6 [0.0, 1.2], where 21.4 points are published: 36.2 %, published 53.9. Without a mean the
        error is 35.6, published 32.5, and level with Cayley's map whose neurons are not normalised (35.7, Table 7.4)
        and with the baseline (35.3). So a higher energy of the neurons may cost something, but nothing like what is
        printed. A mean of 0.02 is a third of the deviation of most neurons: the cosine of two of them is 0.1 on
        average, which hardly hinders training here. Means of 0.03 and 0.05, with which the published network does not
        converge, have not been trained, nor has any network without BatchNorm.""",
    "paper.figure5": """The curves at batches of 4 were trained with three seeds; those at 8, 16 and 32 were not. The
        paper says of them that SphereNorm ends near BatchNorm and converges faster, that the constraint WᵀW = I helps
        it a little, that rescaling does not work well, and that both normalisations together converge fastest and end
        highest.

        At the printed rate (Adam, 1e-3) both together do end highest, at 79.6: 1.2 [-0.1, +2.4] above BatchNorm, which
        three seeds just cannot distinguish from 0. They are ahead until 8,000 steps (50 to 44 %), behind at 32,000 (59
        to 68 %), and ahead again from 52,000 on. SphereNorm alone does not learn at this rate: all three seeds are at
        chance until the rate is divided by 10 at 34,000 steps, one until it is divided again at 54,000, and they end at
        25 to 40 %. The constraint helps by more than a little: all three seeds learn from the first division on and end
        at 60.0. Rescaled, one of three seeds learns at all, to 27 %: it does not work well, as the paper says. (Curves:
        of the logs, not in the JSON.)

        At a tenth of the rate (other settings, above) SphereNorm learns from the start and ends at 79.4: level with
        BatchNorm at the printed rate (+1.0 [-0.2, +2.2]) and 1.0 [0.6, 1.3] below BatchNorm at the same one. It is no
        faster in accuracy (44.8, 63.8 and 73.0 % after 4,000, 16,000 and 32,000 steps; BatchNorm 45.0, 64.0 and 74.7),
        but ends with 82 to 85 % of its last training images, BatchNorm with 74 to 76 %. So what the paper says of the
        end holds at 1e-4, and what it says of the speed is not seen.

        Why 1e-3 is too much was looked at on a CPU (seed 0, not in the JSON). After 100 steps 5 % of the ReLUs of the
        last convolution are alive; nothing moves an output of SphereNorm back to 0, as BatchNorm does. Without
        projection of the weights it is the same. Of Figure 5 the paper only says "same setting as Section 4.2", where
        batches are of 128.""",
    "thesis.table4.2": """Without BatchNorm the plain CNN has 36.7 % error, published 35.3, and SegConv with the cosine
        30.5, published 30.3. The gain is 6.3 [5.3, 7.2], published 5.0: reproduced, and more. The verdict says "in
        direction" only because the interval excludes the published gain from the other side.

        The plain CNN knows 89 % of its last training images, SegConv 99.6 %. So SegConv fits its training images
        without BatchNorm, which the plain CNN does not. Its test loss ends above that of the plain CNN (2.3 and 1.8):
        it is surer where it is wrong. The other eight operators have not been run.""",
    "thesis.table7.12": """PointNet without T-Net has 86.5 %, published 87.1, which one more seed of ours could give.
        With Cayley's map it has 86.1: -0.4 [-1.1, +0.2], published +0.8, not reproduced. The best of all evaluations
        differ as much (86.9 and 86.4).

        Cayley's map keeps the energy of the neurons (0.67 to 0.75, mean over the layers), which in the baseline ends
        between 0.68 and 1.03. The network knows 94.4 % of its last training clouds, the baseline 96.7 %, and its test
        loss is lower (0.55 and 0.65). (Energies: of the logs, not in the JSON.) Gram-Schmidt has not been run.""",
}
