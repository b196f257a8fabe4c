"""The tables as the documents print them, row by row: what the recipes' numbers are checked against.

The first line of a table names its columns, the first word of a line its row; ``N/C`` is "not converged", ``-`` and
``N/A`` no entry.
"""

TABLES = {
    "paper.table1": (
        "{row}.{column}",
        """
        row         softmax  w-sigmoid0.1  w-sigmoid0.3  w-sigmoid0.7  w-linear  w-cosine  a-softmax  ga-softmax
        sigmoid0.1    90.97         90.91         90.89         90.88     91.07     91.13      91.87       91.99
        sigmoid0.3    91.08         91.44         91.37         91.21     91.34     91.28      92.13       92.38
        sigmoid0.7    91.05         91.16         91.47         91.07     90.99     91.18      92.22       92.36
        linear        91.10         90.93         91.42         90.96     90.95     91.24      92.21       92.32
        cosine        90.89         90.88         91.08         91.22     91.17     90.99      91.94       92.19
        original      90.58         90.58         90.73         90.78     91.08     90.68      91.78       91.80
        """,
    ),
    "paper.table2": (
        "{row}.{column}",
        """
        row          cnn3   cnn9  cnn18  cnn45  cnn60  resnet32
        sigmoid0.1  82.08  91.13  91.43  89.34  87.67     90.94
        sigmoid0.3  81.92  91.28  91.55  89.73  87.85      91.7
        sigmoid0.7   82.4  91.18  91.69  89.85  88.42     91.19
        linear      82.31  91.15  91.24  90.15  89.91     91.25
        cosine      82.23  90.99  91.23  90.05  89.28     91.38
        original    81.19  90.68  90.62  88.23  88.15     90.40
        """,
    ),
    "paper.table3": (
        "{row}",
        """
        row         accuracy
        sigmoid0.1     86.29
        sigmoid0.3     85.67
        sigmoid0.7     85.51
        linear         85.34
        cosine         85.25
        original       80.73
        """,
    ),
    "paper.table4": (
        "{row}.{column}",
        """
        row       cifar10+  cifar100
        resnet32     93.26     72.85
        s-sw         94.47     76.02
        l-lw         94.33     75.62
        c-cw         94.64     74.92
        s-g          95.01     76.39
        """,
    ),
    "thesis.table2.2": (
        "{row}",
        """
        row      error
        hinge     0.47
        softmax   0.40
        m2        0.32
        m3        0.31
        m4        0.31
        """,
    ),
    "thesis.table2.3": (
        "{column}.{row}",
        """
        row      cifar10  cifar10+
        hinge       9.91      6.96
        softmax     9.05      6.50
        m2          7.73      6.01
        m3          7.66      5.94
        m4          7.58      5.92
        """,
    ),
    "thesis.table2.4": (
        "{row}",
        """
        row      error
        hinge    32.90
        softmax  32.74
        m2       29.95
        m3       29.87
        m4       29.53
        """,
    ),
    "thesis.table2.5": (
        "{row}",
        """
        row          accuracy
        softmax         96.53
        contrastive     97.31
        m2          97.81
        m3          98.27
        m4          98.71
        """,
    ),
    "thesis.table2.8": (
        "{column}.{row}",
        """
        row  softmax     m1     m2     m3     m4
        lfw    97.88  97.90  98.40  99.25  99.42
        ytf     93.1   93.2   93.8   94.4   95.0
        """,
    ),
    "thesis.table2.9": (
        "{row}.{column}",
        """
        row            lfw   ytf
        softmax      97.88  93.1
        contrastive  98.78  93.5
        triplet      98.70  93.4
        l-softmax    99.10  94.0
        center       99.05  94.4
        sphereface   99.42  95.0
        """,
    ),
    "thesis.table2.10": (
        "{row}.{column}",
        """
        row           rank1     tar
        softmax      54.855  65.925
        contrastive  65.219  78.865
        triplet      64.797  78.322
        l-softmax    67.128  80.423
        center       65.494  80.146
        sphereface   72.729  85.561
        """,
    ),
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
    "thesis.tableA.1": (
        "{row}.{column}",
        """
        row    lfw  fisher
        A    95.13  0.3477
        B    96.37  0.2835
        C    96.40  0.2815
        D    96.63  0.2462
        E    97.67  0.2277
        F    97.82  0.1791
        G    98.20  0.1709
        """,
    ),
    "thesis.tableA.2": (
        "{row}.{column}",
        """
        row            rank1     tar
        softmax64     54.855  65.925
        sphereface4   57.529  68.547
        sphereface10  65.335  78.069
        sphereface20  69.623  83.159
        sphereface36  71.257  84.052
        sphereface64  72.729  85.561
        """,
    ),
    "thesis.tableD.7": (
        "{column}.m{row}.tar",
        """
        row  sphereface  sphereface+
        1         42.46        52.02
        2         71.79        80.94
        3         76.34        80.58
        4         82.56        83.39
        """,
    ),
    "thesis.tableD.8": (
        "{row}.{column}",
        """
        row                      lfw  rank1
        sphereface.imdb_face   99.53  72.89
        sphereface+.imdb_face  99.57  73.15
        sphereface.ms_celeb    99.48  73.93
        sphereface+.ms_celeb    99.5  74.16
        sphereface.casia       99.27  70.68
        sphereface+.casia      99.32  71.30
        """,
    ),
    "thesis.table4.1": (
        "{row}",
        """
        row                  error
        linearly-weighted    22.95
        product-weighted     23.03
        separately-weighted  23.38
        standard-gradients   23.09
        weight-projection    21.17
        weighted-gradients   21.45
        """,
    ),
    "thesis.table4.2": (
        "{row}.{column}",
        """
        row      linear  cosine  square_cosine
        linear    33.39   31.76            N/C
        tanh      32.88   31.88          34.26
        segment   34.69   30.34            N/C
        """,
    ),
    "thesis.table4.3": (
        "{row}.{column}",
        """
        row      cosine.no-relu  square_cosine.no-relu  cosine.relu  square_cosine.relu
        sphere            33.31                  25.90        26.00               26.97
        ball              31.81                  25.43        25.18               26.48
        tanh              32.27                  25.27        25.15               26.94
        linear            36.49                  24.36        24.81               25.14
        segment           33.57                  24.29        24.96               25.04
        log               33.62                  24.91        25.17               25.85
        mix               33.46                  24.93        25.27               25.77
        """,
    ),
    "thesis.table4.4": (
        "{row}.{column}",
        """
        row      linear  cosine  square_cosine
        sphere    21.79   21.44          24.40
        ball      21.44   21.12          24.31
        tanh       21.6   21.17          24.77
        linear    21.09   22.17          21.31
        segment   20.86   20.91          20.88
        log       21.84   21.08          22.86
        mix       21.02   21.28          21.81
        """,
    ),
    "thesis.table4.5": (
        "{row}.{column}",
        """
        row                   cifar10  cifar100
        tanh-cosine              4.75     21.12
        linear-square_cosine     5.34     20.23
        """,
    ),
    "thesis.table4.6": (
        "{row}.{column}",
        """
        row       standard  modified  modified-no-bn
        baseline     12.63     12.10             N/C
        sphere       12.68     11.55           13.30
        linear       11.99     11.50             N/C
        tanh         12.47     11.10           12.79
        """,
    ),
    "thesis.table4.7": (
        "{column}.{row}",
        """
        row           baseline  sphere   ball   tanh
        natural.none     85.35   88.58  91.13  91.45
        natural.fgsm     18.82   43.64  50.47  52.60
        natural.bim       8.67    8.89   7.74  10.18
        fgsm.none        83.70   87.41  87.47  87.54
        fgsm.fgsm        78.96   85.98  82.20  81.46
        fgsm.bim          7.96   35.07  17.38  19.86
        """,
    ),
    "thesis.table4.8": (  # without attack as in Table 4.7
        "{column}.{row}",
        """
        row           baseline  sphere   ball   tanh
        natural.fgsm     50.90   56.71  49.50  50.61
        natural.bim      36.22   43.10  27.48  29.06
        fgsm.fgsm        77.57   76.29  78.67  80.38
        fgsm.bim         78.55   77.79  80.59  82.47
        """,
    ),
    "thesis.tableC.2": (
        "{row}.{column}",
        """
        row      linear  cosine  square_cosine
        sphere    21.71   21.61          24.62
        ball      20.96   21.25          24.40
        tanh      21.07   21.12          24.29
        linear    21.43   21.25          20.54
        segment   20.58   20.61          20.61
        log       21.15   21.42          23.10
        mix       20.82   21.20          21.19
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
    "thesis.tableD.3": (
        "{row}.{column}",
        """
        row         s2.cifar10  s1.cifar10  s0.cifar10  s2.cifar100  s1.cifar100  s0.cifar100
        mhe               5.71        5.99        5.95        27.28        26.99        27.03
        half-mhe          6.12        6.33        6.31        27.17        27.77        27.46
        a-mhe             5.91        5.98        6.06        27.07        27.27        26.70
        half-a-mhe        6.14        5.87        6.11        27.35        27.68        27.58
        """,
    ),
    "thesis.tableD.4": (
        "{row}",
        """
        row          score
        real         11.24
        clipping      6.41
        gp            6.93
        wgan-gp       6.68
        batch         6.27
        layer         7.19
        weight        6.84
        orthonormal   7.40
        sn            7.42
        mhe           7.32
        mhe+sn        7.59
        """,
    ),
    "thesis.tableD.6": (
        "{row}.{column}",
        """
        row          single  multiple
        baseline      31.43     38.39
        orthonormal   30.75     37.89
        mhe           29.30     37.07
        half-mhe      29.40     36.52
        a-mhe         30.16     37.54
        half-a-mhe    29.60     37.07
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
    "thesis.tableE.4": (
        "{row}{column}",
        """
        row       1    200   1000  -never
        every  24.6  24.84  24.62   26.09
        """,
    ),
    "thesis.tableE.5": (
        "{row}",
        """
        row        seconds
        baseline      5.61
        hs-mhe        6.46
        rp-comhe      7.62
        ap-comhe      7.48
        adv-comhe     6.37
        g-comhe      11.12
        """,
    ),
    "thesis.tableE.6": (
        "{row}.{column}",
        """
        row       citeseer  cora  pubmed
        baseline      70.3  81.3    79.0
        hs-mhe        71.5  82.0    79.0
        rp-comhe      72.1  82.7    79.5
        ap-comhe      72.0  82.6    79.5
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
    "thesis.tableF.4": (
        "{column}.k{row}",
        """
        row     cp     gs     hr     ls    ogd
        1    33.53  33.02  35.67  34.48  33.33
        2    34.93  34.39  35.83  34.50  35.06
        4    39.40  39.13  39.67  37.58  39.80
        8    47.77  46.65  46.69  45.62  47.43
        16   56.65  55.91  55.69  54.75  57.15
        32   63.46  62.65  62.38  61.60  62.46
        64   67.36  67.11  67.05  66.61  67.23
        """,
    ),
    "thesis.tableF.5": (
        "{column}.k{row}",
        """
        row     cp     gs     hr     ls    ogd
        1    33.53  33.02  35.67  34.48  33.33
        2    33.54  33.15  35.65  34.09  34.27
        4    34.77  34.50  35.71  34.96  35.97
        8    37.25  36.43  36.40  36.17  39.75
        16   40.74  39.89  39.98  39.93  43.43
        32   45.36  44.77  44.83  44.61  48.98
        64   50.94  49.16  49.57  49.23  54.93
        """,
    ),
}

# numbers that stand for several columns or for none
SINGLES: dict[str, dict[str, float | None]] = {
    "paper.section4.3": {"learnable": 91.64},
    "thesis.sectionD.6": {"am-softmax": 99.26, "am-softmax+mhe": 99.37},
    "thesis.figure2.11": {  # of the text; the figure has no numbers
        **{f"{m}.{d}.{c}": None for m in ("m4", "softmax") for d in (10, 20, 36) for c in ("lfw", "ytf")},
        "m4.4.lfw": 98.20,
        "m4.64.lfw": 99.42,
        "m4.4.ytf": 93.4,
        "m4.64.ytf": 95.0,
        "softmax.4.lfw": 96.60,
        "softmax.64.lfw": 97.75,
        "softmax.4.ytf": 91.1,
        "softmax.64.ytf": 93.1,
    },
    "paper.figure4": {"learnable": 91.64},
    "thesis.table4.2": {"baseline": 35.30},
    "thesis.table4.3": {"baseline.no-relu": 58.24, "baseline.relu": 26.01},
    "thesis.table4.4": {"baseline": 26.69},
    "thesis.table4.8": {"source": None},  # what the attacks are made on
    "thesis.tableC.2": {"baseline": 21.55},
    "thesis.table5.1": {"baseline.cifar10": 7.75, "baseline.cifar100": 28.13},
    "thesis.table5.4": {"baseline": 28.13},
    "thesis.tableD.3": {
        "orthonormal.cifar10": 6.13,
        "orthonormal.cifar100": 27.95,
        "baseline.cifar10": 6.37,
        "baseline.cifar100": 28.10,
    },
    "thesis.tableF.4": {"baseline": 37.59, "fixed": 73.81},
    "thesis.tableF.5": {"baseline": 37.59, "fixed": 73.81},
    "thesis.figure4.4": {  # of Table 4.4
        "baseline": 26.69,
        "sphere": 21.44,
        "ball": 21.12,
        "tanh": 21.17,
        "linear": 22.17,
        "segment": 20.91,
        "log": 21.08,
        "mix": 21.28,
    },
    "thesis.figure5.4": {"baseline": 88.5, "mhe": 98.0},
    "thesis.figure6.2": {  # of Table 6.1
        "baseline": 28.03,
        "orthogonal": 27.01,
        "hs-mhe": 25.96,
        "rp-comhe": 24.39,
        "ap-comhe": 24.33,
    },
    "thesis.figure7.3": {"baseline": 37.59, "hs-mhe": 34.97, "gs": 33.02, "cp": 33.53, "or": 34.70},  # of Table 7.4
}


def published(table: str) -> dict[str, float | None]:
    """What the documents print for each cell of a table, by the cell's name; None where it did not converge."""
    found: dict[str, float | None] = dict(SINGLES.get(table, {}))
    name, text = TABLES.get(table, ("", ""))
    lines = [line.split() for line in text.strip().splitlines()]
    for row, *values in lines[1:]:
        for column, value in zip(lines[0][1:], values, strict=True):
            if value not in ("-", "N/A"):
                found[name.format(row=row, column=column)] = None if value == "N/C" else float(value)
    return found
