"""The tables of the appendices as they are printed; ``recipe_published.py`` says how they are read."""

APPENDICES = {
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
