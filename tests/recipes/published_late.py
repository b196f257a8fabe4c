"""The tables of chapters 5 to 7 as they are printed; ``recipe_published.py`` says how they are read."""

LATE = {
    "thesis.table5.8": (
        "{row}.{column}",
        """
        row               lfw  rank1
        sphereface.m1   96.35  39.12
        sphereface.m2   98.87  60.48
        sphereface.m3   98.97  63.71
        sphereface.m4   99.26  70.68
        sphereface+.m1  97.15  45.90
        sphereface+.m2  99.05  68.51
        sphereface+.m3  99.13  66.89
        sphereface+.m4  99.32  71.30
        """,
    ),
    "thesis.table5.9": (
        "{row}.{column}",
        """
        row               lfw  rank1
        sphereface.m1   96.93  41.07
        sphereface.m2   99.03  62.01
        sphereface.m3   99.25  69.69
        sphereface.m4   99.42  72.72
        sphereface+.m1  97.47  45.55
        sphereface+.m2  99.22  67.07
        sphereface+.m3  99.35  70.89
        sphereface+.m4  99.47  73.03
        """,
    ),
    "thesis.table5.10": (
        "{row}.{column}",
        """
        row            lfw  rank1
        softmax      97.88  54.86
        contrastive  98.78  65.22
        triplet      98.70  64.80
        l-softmax    99.10  67.13
        center       99.05  65.49
        cosineface   99.10  75.10
        sphereface   99.42  72.72
        sphereface+  99.47  73.03
        """,
    ),
    "thesis.table5.1": (
        "{row}.{column}",
        """
        row         s2.cifar10  s1.cifar10  s0.cifar10  s2.cifar100  s1.cifar100  s0.cifar100
        mhe               6.22        6.74        6.44        27.15        27.09        26.16
        half-mhe          6.28        6.54        6.30        25.61        26.30        26.18
        a-mhe             6.21        6.77        6.45        26.17        27.31        27.90
        half-a-mhe        6.52        6.49        6.44        26.03        26.52        26.47
        """,
    ),
    "thesis.table5.2": (
        "{row}.{column}",
        """
        row       16-32-64  32-64-128  64-128-256  128-256-512  256-512-1024
        baseline     47.72      38.64       28.13        24.95         25.45
        mhe          36.84      30.05       26.75        24.05         23.14
        half-mhe     35.16      29.33       25.96        23.38         21.83
        """,
    ),
    "thesis.table5.3": (
        "{row}.{column}",
        """
        row        cnn6   cnn9  cnn15
        baseline  32.08  28.13    N/C
        mhe       28.16  26.75   26.9
        half-mhe  27.56  25.96  25.84
        """,
    ),
    "thesis.table5.4": (
        "{row}.{column}",
        """
        row         output  hidden   both
        mhe          26.85   26.55  26.16
        half-mhe       N/A   26.28  25.61
        a-mhe         27.8   26.56  26.17
        half-a-mhe     N/A   26.64  26.03
        """,
    ),
    "thesis.table5.5": (
        "{row}.{column}",
        """
        row       cifar10  cifar100
        baseline     5.19     22.87
        mhe          4.72     22.19
        half-mhe     4.66     22.04
        """,
    ),
    "thesis.table5.6": (
        "{row}.{column}",
        """
        row          resnet18  resnet34
        baseline        32.95     30.04
        orthogonal      32.65     29.74
        orthonormal     32.61     29.75
        mhe             32.50     29.60
        half-mhe        32.45     29.50
        """,
    ),
    "thesis.table5.7": (
        "{row}.{column}",
        """
        row          single  single-scarce  multiple
        baseline       9.80          30.40     12.00
        orthonormal    8.34          26.80     10.80
        mhe            7.98          25.80     10.25
        half-mhe       7.90          26.40      9.59
        a-mhe          7.96          26.00      9.88
        half-a-mhe     7.59          25.90      9.89
        """,
    ),
    "thesis.table7.2": (
        "{column}{row}",
        """
        row   energy   mean
        0     3.5109  32.49
        1e-3  3.5117  33.11
        1e-2  3.5160  39.51
        2e-2  3.5531  53.89
        3e-2  3.6761    N/C
        5e-2  4.2776    N/C
        """,
    ),
    "thesis.table6.1": (
        "{row}",
        """
        row             error
        baseline        28.03
        orthogonal      27.01
        srip            25.80
        mhe             26.75
        hs-mhe          25.96
        g-comhe         25.08
        adv-comhe       25.09
        rp-comhe        24.39
        rp-comhe-max    24.77
        ap-comhe-alter  24.95
        ap-comhe        24.33
        """,
    ),
    "thesis.table6.2": (
        "{row}.{column}",
        """
        row             dim10  dim20  dim30  dim40  dim80
        rp-comhe        25.48  25.32  24.60  24.75  25.46
        ap-comhe-alter  25.21  24.60  24.95  24.97  24.99
        ap-comhe        25.32  24.59  24.33  24.93  25.12
        """,
    ),
    "thesis.table6.3": (
        "{column}.count{row}",
        """
        row  rp-comhe  ap-comhe
        1       25.11     24.33
        5       24.39     24.34
        10      25.11     24.36
        20      24.60     24.38
        30      24.82     24.52
        80      24.92     24.56
        """,
    ),
    "thesis.table6.4": (
        "{row}.{column}",
        """
        row          t1     t2     t4     t8    t16    t20
        baseline  47.72  38.64  28.13  24.95  24.44  23.77
        mhe       36.84  30.05  26.75  24.05  23.14  22.36
        hs-mhe    35.16  29.33  25.96  23.38  21.83  21.22
        rp-comhe  34.73  28.92  24.39  22.44  20.81  20.62
        ap-comhe  34.89  29.01  24.33   22.6  20.72  20.50
        """,
    ),
    "thesis.table6.5": (
        "{row}.{column}",
        """
        row        cnn6   cnn9  cnn15
        baseline  32.08  28.13    N/C
        mhe       28.16  26.75  26.90
        hs-mhe    27.56  25.96  25.84
        rp-comhe  26.73  24.39  24.21
        ap-comhe  26.55  24.33  24.55
        """,
    ),
    "thesis.table6.6": (
        "{row}.{column}",
        """
        row         cifar10  cifar100
        baseline       5.19     22.87
        orthogonal     5.02     22.36
        srip           4.75     22.08
        mhe            4.72     22.19
        hs-mhe         4.66     22.04
        rp-comhe       4.59     21.82
        ap-comhe       4.57     21.63
        """,
    ),
    "thesis.table6.7": (
        "{row}.{column}",
        """
        row          resnet18  resnet34  resnet50
        baseline        32.95     30.04     25.30
        orthogonal      32.65     29.74     25.19
        orthonormal     32.61     29.75     25.21
        srip            32.53     29.55     24.91
        mhe             32.50     29.60     25.02
        hs-mhe          32.45     29.50     24.98
        rp-comhe        31.90     29.38     24.51
        ap-comhe        31.80     29.32     24.53
        """,
    ),
    "thesis.table6.8": (
        "{row}.{column}",
        """
        row       pointnet  pointnet_tnet  pointnet2
        baseline      87.1          89.20      90.07
        mhe          87.31          89.33      90.25
        hs-mhe       87.44          89.41      90.31
        rp-comhe     87.82          89.69      90.52
        ap-comhe     87.85          89.70      90.56
        """,
    ),
    "thesis.table7.1": (
        "{row}.{column}",
        """
        row           cnn6   cnn9
        baseline     37.59  33.55
        upt-learned  48.47  46.72
        upt-fixed    42.61  39.38
        opt-learned  37.24  32.95
        opt-fixed    33.02  31.03
        """,
    ),
    "thesis.table7.3": (
        "{row}.{column}",
        """
        row       normal  xavier
        baseline    6.05    2.14
        gs          5.11    1.45
        hr          5.31    1.60
        ls          5.32    1.54
        cp          5.14    1.49
        ogd         5.38    1.56
        or          5.41    1.78
        """,
    ),
    "thesis.table7.4": (
        "{row}.{column}",
        """
        row        cnn6   cnn9
        baseline  37.59  33.55
        hs-mhe    34.97  32.87
        gs        33.02  31.03
        hr        35.67  32.75
        ls        34.48  31.22
        cp        33.53  31.28
        ogd       33.33  31.47
        or        34.70  32.63
        """,
    ),
    "thesis.table7.5": (
        "{row}",
        """
        row       error
        baseline  38.95
        hs-mhe    36.90
        gs        35.61
        hr        37.51
        ls        35.83
        cp        34.88
        ogd       35.38
        or          N/C
        """,
    ),
    "thesis.table7.6": (
        "{row}.{column}",
        """
        row  original    mhe  hs-mhe
        gs      33.02  32.99   32.78
        ls      34.48  34.43   34.37
        cp      33.53  33.50   33.42
        energy  3.5109  3.5003  3.4976
        """,
    ),
    "thesis.table7.7": (
        "{row}.{column}",
        """
        row       plain   norm
        baseline  37.59  36.05
        gs        33.02  32.54
        hr        35.67  35.30
        ls        34.48  32.11
        cp        33.53  32.49
        ogd       33.37  32.70
        or        34.70  33.27
        """,
    ),
    "thesis.table7.8": (
        "{row}.{column}",
        """
        row       resnet20  resnet32
        baseline     31.11     30.16
        gs           30.73     29.56
        cp           30.47     29.31
        """,
    ),
    "thesis.table7.9": (
        "{row}.{column}",
        """
        row        top1   top5
        baseline  44.32  21.13
        cp        43.67  20.26
        """,
    ),
    "thesis.table7.10": (
        "{row}.{column}",
        """
        row         plain    opt
        baseline    62.53  63.27
        baseline++  66.43  66.82
        """,
    ),
    "thesis.table7.11": (
        "{row}.{column}",
        """
        row       cora  pubmed
        baseline  81.3    79.0
        cp        82.0    79.4
        ogd       82.3    79.5
        """,
    ),
    "thesis.table7.12": (
        "{row}",
        """
        row       accuracy
        baseline      87.1
        gs           87.23
        cp           87.86
        """,
    ),
}
